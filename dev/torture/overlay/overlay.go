// Package overlay builds the child programs of a torture run from the product's sources with small patches
// laid over them (go build -overlay), so that neither test hooks nor mutants live in the product.
package overlay

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// Patch is a place in a source file of the root module and what stands there instead.
type Patch struct {
	File string // relative to the root of the repository
	Old  string // occurs exactly once
	New  string
}

// Root is the root of the repository.
func Root() (string, error) {
	_, file, _, ok := runtime.Caller(0)
	if !ok {
		return "", fmt.Errorf("overlay: the source's place is not known")
	}
	root := filepath.Join(filepath.Dir(file), "..", "..", "..")
	if _, err := os.Stat(filepath.Join(root, "client.go")); err != nil {
		return "", fmt.Errorf("overlay: the sources are not there: %w", err)
	}
	return root, nil
}

// Apply returns the patched files by name. It fails when a place is not found exactly once.
func Apply(root string, patches []Patch) (map[string]string, error) {
	out := map[string]string{}
	for _, p := range patches {
		text, ok := out[p.File]
		if !ok {
			data, err := os.ReadFile(filepath.Join(root, p.File))
			if err != nil {
				return nil, fmt.Errorf("overlay: %w", err)
			}
			text = string(data)
		}
		if n := strings.Count(text, p.Old); n != 1 {
			return nil, fmt.Errorf("overlay: %s has %q %d times, not once", p.File, p.Old, n)
		}
		out[p.File] = strings.Replace(text, p.Old, p.New, 1)
	}
	return out, nil
}

// Build builds the package below dev/torture to the file out, with patches.
func Build(pkg, out string, patches []Patch) error {
	root, err := Root()
	if err != nil {
		return err
	}
	files, err := Apply(root, patches)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "torture-overlay-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	replace := map[string]string{}
	for name, text := range files {
		copied := filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))
		if err := os.WriteFile(copied, []byte(text), 0o600); err != nil {
			return err
		}
		replace[filepath.Join(root, name)] = copied
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	listed := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(listed, list, 0o600); err != nil {
		return err
	}
	cmd := exec.Command("go", "build", "-overlay", listed, "-o", out, "./torture/"+pkg)
	cmd.Dir = filepath.Join(root, "dev")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("overlay: building %s: %w\n%s", pkg, err, text)
	}
	return nil
}
