package bolt

import (
	"errors"
	"fmt"
)

var errNetwork = errors.New("refused on a network file system")

// refuseNetwork keeps the outbox off file systems on which two machines can hold the same lock.
func (e *Engine) refuseNetwork() error {
	if e.opts.AllowNetwork {
		return nil
	}
	kind := e.opts.fileSystem
	if kind == nil {
		kind = fileSystemType
	}
	t, err := kind(e.path)
	if err != nil {
		return classify(err)
	}
	if name, ok := networkTypes[t]; ok {
		return fmt.Errorf("%w (%s), where a lock may not reach other machines: keep it on a local disk, or set Options.AllowNetwork", errNetwork, name)
	}
	return nil
}
