package flavoso

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"testing"
	_ "time/tzdata" // the zones are the same on every machine

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/mockserver"
)

// validationCase is an entry of testdata/menu_cases.json and testdata/hours_cases.json. The SDK and the mock
// server check documents with code of their own; the same cases hold both to the same answers.
type validationCase struct {
	Name     string          `json:"name"`
	Pointers []string        `json:"pointers"` // where the faults are, in any order; none = the document is valid
	Input    json.RawMessage `json:"input"`
}

func validationCases(t *testing.T, path string) []validationCase {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	var cases []validationCase
	require.NoError(t, json.Unmarshal(data, &cases))
	require.NotEmpty(t, cases)
	return cases
}

// putDocument sends a document as it is, past the SDK's own checks.
func putDocument(t *testing.T, srv *mockserver.Server, path string, body []byte) (int, []byte) {
	t.Helper()
	req, err := http.NewRequest("PUT", srv.BaseURL()+path, bytes.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+srv.Token(store))
	req.Header.Set("Content-Type", "application/json")
	resp, err := (&http.Client{Transport: srv.Transport()}).Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, answer
}

func pointersOf(faults []Fault) []string {
	pointers := []string{}
	for _, f := range faults {
		pointers = append(pointers, f.Pointer)
	}
	return pointers
}

func TestMenusAndHoursAreCheckedAlikeHereAndAtFlavoso(t *testing.T) {
	srv := mockserver.Start(t, mockserver.InMemory())
	for _, doc := range []struct {
		file, path string
		decode     func([]byte) (interface{ Validate() error }, error)
	}{
		{"testdata/menu_cases.json", "/menu", func(b []byte) (interface{ Validate() error }, error) {
			m := new(Menu)
			return m, json.Unmarshal(b, m)
		}},
		{"testdata/hours_cases.json", "/store/hours", func(b []byte) (interface{ Validate() error }, error) {
			h := new(Hours)
			return h, json.Unmarshal(b, h)
		}},
	} {
		for _, tc := range validationCases(t, doc.file) {
			t.Run(doc.path+" "+tc.Name, func(t *testing.T) {
				value, err := doc.decode(tc.Input)
				require.NoError(t, err)
				encoded, err := encodeBody(value)
				require.NoError(t, err)
				for what, body := range map[string][]byte{"the case": tc.Input, "as the SDK writes it": encoded} {
					status, answer := putDocument(t, srv, doc.path, body)
					if len(tc.Pointers) == 0 {
						assert.Equal(t, 200, status, "%s: %s", what, answer)
						continue
					}
					assert.Equal(t, 422, status, what)
					assert.ElementsMatch(t, tc.Pointers, pointersOf((&APIError{Body: answer}).Faults()), what)
				}

				err = value.Validate()
				if len(tc.Pointers) == 0 {
					require.NoError(t, err)
					return
				}
				var invalid *ValidationError
				require.ErrorAs(t, err, &invalid)
				assert.ElementsMatch(t, tc.Pointers, pointersOf(invalid.Faults))
				assert.ErrorIs(t, err, ErrNotSaved)
				assert.Equal(t, FateNotSent, FateOf(err))
				var param *ParamError
				require.True(t, errors.As(err, &param))
				assert.Equal(t, invalid.Faults[0].Pointer, param.Field)
				for _, f := range invalid.Faults {
					assert.NotEmpty(t, f.Code)
					assert.NotEmpty(t, f.Message)
				}
			})
		}
	}
}

func TestInvalidTextIsAFaultOfItsOwn(t *testing.T) {
	m := Menu{Currency: "EUR", Items: []MenuItem{{ID: "a\xff", Name: "b\xff", ExternalID: "\xff", Price: Money{1, "EUR"}}}}
	var invalid *ValidationError
	require.ErrorAs(t, m.Validate(), &invalid)
	assert.ElementsMatch(t, []string{"/items/0/id", "/items/0/name", "/items/0/external_id"}, pointersOf(invalid.Faults))
}

func TestFaultsOfAnAnswer(t *testing.T) {
	for body, want := range map[string][]string{
		`{"error":{"details":[{"param":"/a","code":"x","message":"m"},{"param":"/b"}]}}`: {"/a", "/b"},
		`{"code":"validation_failed","details":[{"param":"/a"}]}`:                        {"/a"},
		`{"error":"no"}`: {}, `<html>`: {}, ``: {}, `{}`: {}, `[]`: {}, `null`: {},
	} {
		assert.Equal(t, want, pointersOf((&APIError{Body: []byte(body)}).Faults()), body)
	}
}
