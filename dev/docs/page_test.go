package docs

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// root is the repository's directory, seen from here.
const root = "../.."

// block is a fenced block of a page.
type block struct {
	page     string // relative to root
	line     int    // of its fence
	language string
	heading  string // the one above it, with its marks
	lines    []string
}

// walk visits the files of the repository.
func walk(t *testing.T, suffix string, visit func(path string, text string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && len(d.Name()) > 2 || d.Name() == "testdata"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, suffix):
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		visit(filepath.ToSlash(rel), string(b))
		return err
	})
	require.NoError(t, err)
}

// blocks returns the fenced blocks of a page.
func blocks(page, text string) []block {
	var out []block
	var heading string
	open := false
	for i, line := range strings.Split(text, "\n") {
		switch {
		case strings.HasPrefix(line, "```"):
			if open = !open; open {
				out = append(out, block{page: page, line: i + 1, language: strings.TrimPrefix(line, "```"), heading: heading})
			}
		case open:
			b := &out[len(out)-1]
			b.lines = append(b.lines, line)
		case strings.HasPrefix(line, "#"):
			heading = line
		}
	}
	return out
}

// prose returns a page without its fenced blocks.
func prose(text string) string {
	var out []string
	open := false
	for _, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, "```") {
			open = !open
		} else if !open {
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n")
}

func read(t *testing.T, page string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, page))
	require.NoError(t, err)
	return string(b)
}

// tokens returns Go code as its tokens, so that comments and white space do not count.
func tokens(code string) string {
	var s scanner.Scanner
	files := token.NewFileSet()
	s.Init(files.AddFile("", -1, len(code)), []byte(code), nil, 0)
	var out strings.Builder
	out.WriteByte('\x00')
	for {
		_, tok, lit := s.Scan()
		switch {
		case tok == token.EOF:
			return out.String()
		case tok == token.SEMICOLON: // where lines end does not count either
		case tok.IsLiteral():
			out.WriteString(lit + "\x00")
		default:
			out.WriteString(tok.String() + "\x00")
		}
	}
}
