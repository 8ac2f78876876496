package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// TestGoInstallGivesOneBinary serves this repository's modules as a module proxy does and installs the command
// from there, as somebody without a checkout does.
func TestGoInstallGivesOneBinary(t *testing.T) {
	const latest = "v0.0.0-20260102030405-0123456789ab"
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	dir := t.TempDir()
	proxy := filepath.Join(dir, "proxy")
	publish(t, proxy, root, "v0.0.0")
	publish(t, proxy, filepath.Join(root, "postgres"), "v0.0.0")
	mod := publish(t, proxy, filepath.Join(root, "cmd", "flavoso"), latest)
	require.Empty(t, mod.Replace, "a module with replacements cannot be installed by its name")
	for _, r := range mod.Require {
		if strings.HasPrefix(r.Mod.Path, "github.com/flavoso/") {
			require.Equal(t, "v0.0.0", r.Mod.Version)
		}
	}

	// Modules of others come from the cache of this machine, and only what it lacks from elsewhere.
	cache := goEnv(t, "GOMODCACHE")
	install := exec.Command("go", "install", "github.com/flavoso/flavoso-go/cmd/flavoso@latest")
	install.Dir = dir
	install.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod -modcacherw -trimpath", "GOSUMDB=off", "GOBIN="+filepath.Join(dir, "bin"),
		"GOMODCACHE="+filepath.Join(dir, "cache"),
		"GOPROXY=file://"+filepath.ToSlash(proxy)+",file://"+filepath.ToSlash(filepath.Join(cache, "cache", "download"))+","+goEnv(t, "GOPROXY"))
	out, err := install.CombinedOutput()
	require.NoError(t, err, "%s", out)

	files, err := os.ReadDir(filepath.Join(dir, "bin"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	installed := filepath.Join(dir, "bin", files[0].Name())
	out, err = exec.Command(installed, "version", "--json").CombinedOutput()
	require.NoError(t, err, "%s", out)
	var v version
	require.NoError(t, json.Unmarshal(out, &v))
	require.Equal(t, latest, v.Version)
	s := newShop(t)
	s.close(s.open())
	out, err = exec.Command(installed, "outbox", "list", s.path).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "0 waiting")
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command("go", "env", name).Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}

// publish puts a module of the working tree into a module proxy's directory, under a version.
func publish(t *testing.T, proxy, dir, version string) *modfile.File {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	require.NoError(t, err)
	mod, err := modfile.Parse("go.mod", text, nil)
	require.NoError(t, err)
	at := filepath.Join(proxy, filepath.FromSlash(mod.Module.Mod.Path), "@v")
	require.NoError(t, os.MkdirAll(at, 0o755))
	info, err := json.Marshal(map[string]any{"Version": version, "Time": time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)})
	require.NoError(t, err)
	for name, b := range map[string][]byte{filepath.Join("@v", version+".info"): info, filepath.Join("@v", version+".mod"): text,
		filepath.Join("@v", "list"): nil, "@latest": info} {
		require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(at), name), b, 0o644))
	}
	f, err := os.Create(filepath.Join(at, version+".zip"))
	require.NoError(t, err)
	require.NoError(t, zip.CreateFromDir(f, module.Version{Path: mod.Module.Mod.Path, Version: version}, dir))
	require.NoError(t, f.Close())
	return mod
}
