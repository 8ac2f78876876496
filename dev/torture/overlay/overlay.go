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

// Patch is a place in a package of the repository and what stands there instead.
type Patch struct {
	Dir string // of the package, relative to the root of the repository
	Old string // occurs exactly once in the package's files; "" = New is a file of its own
	New string
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

// Apply returns the patched files by name, relative to root. It fails when a place is not found exactly once.
func Apply(root string, patches []Patch) (map[string]string, error) {
	out := map[string]string{}
	for _, p := range patches {
		if p.Old == "" {
			out[filepath.Join(p.Dir, "torture_added.go")] = p.New
			continue
		}
		files, err := filepath.Glob(filepath.Join(root, p.Dir, "*.go"))
		if err != nil {
			return nil, fmt.Errorf("overlay: %w", err)
		}
		found, at, text := 0, "", ""
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			name, err := filepath.Rel(root, path)
			if err != nil {
				return nil, fmt.Errorf("overlay: %w", err)
			}
			have, patched := out[name]
			if !patched {
				data, err := os.ReadFile(path)
				if err != nil {
					return nil, fmt.Errorf("overlay: %w", err)
				}
				have = string(data)
			}
			if n := strings.Count(have, p.Old); n > 0 {
				found, at, text = found+n, name, have
			}
		}
		if found != 1 {
			return nil, fmt.Errorf("overlay: %s has %q %d times, not once", p.Dir, p.Old, found)
		}
		out[at] = strings.Replace(text, p.Old, p.New, 1)
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
