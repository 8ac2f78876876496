package main

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/flavoso/flavoso-go/outbox"
)

// keySize is how long the keys of a sealed outbox are.
const keySize = 32

// readKeys reads a key file: one key a line, in hex or base64, with empty lines and lines that start with #
// between them; or 32 bytes as they are.
func readKeys(path string) ([][]byte, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("key file: %w", err)
	}
	if len(b) == keySize {
		return [][]byte{b}, nil
	}
	var keys [][]byte
	for i, line := range strings.Split(string(b), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key := parseKey(line)
		if key == nil {
			return nil, fmt.Errorf("key file %s: line %d is not a key of 32 bytes in hex or base64", path, i+1)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("key file %s holds no key", path)
	}
	return keys, nil
}

func parseKey(s string) []byte {
	if b, err := hex.DecodeString(s); err == nil && len(b) == keySize {
		return b
	}
	s = strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(s, "="))
	if b, err := base64.RawStdEncoding.DecodeString(s); err == nil && len(b) == keySize {
		return b
	}
	return nil
}

// unseal returns the engine through which a sealed outbox can be read, and e itself when it is not sealed. It
// tries one key after the other and never seals or rotates: that is for the till to do, which must open the
// outbox afterwards.
func (f *outboxFlags) unseal(ctx context.Context, e outbox.Engine, name string) (outbox.Engine, error) {
	err := outbox.RequireUnsealed(ctx, e)
	switch {
	case err == nil && f.keyFile != "":
		return nil, fmt.Errorf("%s is not sealed: leave --key-file out", name)
	case err == nil:
		return e, nil
	case !errors.Is(err, outbox.ErrSealed):
		return nil, err
	case f.keyFile == "":
		return nil, fmt.Errorf("%s: %w: give its key with --key-file", name, outbox.ErrSealed)
	}
	keys, err := readKeys(f.keyFile)
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		opened, err := outbox.Seal(e, key)
		if err == nil || !errors.Is(err, outbox.ErrSealed) {
			return opened, err
		}
	}
	return nil, fmt.Errorf("%s: %w: no key of %s opens it", name, outbox.ErrSealed, f.keyFile)
}
