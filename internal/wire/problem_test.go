package wire

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
)

func TestReadProblem(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		want Problem
	}{
		"documented envelope": {
			`{"error":{"code":"conflict","message":"No.","param":"items[3].price","details":[{"param":"a","code":"b","message":"c"}]}}`,
			Problem{Code: "conflict", Known: true, Message: "No.", Param: "items[3].price", Details: []Detail{{"a", "b", "c"}}},
		},
		"flat message":                {`{"message":"No."}`, Problem{Message: "No."}},
		"flat code":                   {`{"code":"not_found","message":"No."}`, Problem{Code: "not_found", Known: true, Message: "No."}},
		"error is a string":           {`{"error":"idempotency_in_progress"}`, Problem{Code: "idempotency_in_progress", Known: true, Message: "idempotency_in_progress"}},
		"list of errors":              {`{"errors":[{"code":"conflict","detail":"No."}]}`, Problem{Code: "conflict", Known: true, Message: "No."}},
		"array":                       {`["x","conflict"]`, Problem{Code: "conflict", Known: true}},
		"bare string":                 {`"conflict"`, Problem{Code: "conflict", Known: true, Message: "conflict"}},
		"bare sentence":               {`"There is a conflict"`, Problem{Message: "There is a conflict"}},
		"text":                        {"conflict\n", Problem{Code: "conflict", Known: true, Message: "conflict"}},
		"sentence":                    {"There was a conflict", Problem{Message: "There was a conflict"}},
		"HTML":                        {"<html>conflict</html>", Problem{}},
		"nothing":                     {"", Problem{}},
		"white space":                 {" \n", Problem{}},
		"null":                        {"null", Problem{}},
		"number":                      {"409", Problem{}},
		"byte order mark":             {"\xef\xbb\xbf" + `{"code":"conflict"}`, Problem{Code: "conflict", Known: true}},
		"a code is worth more":        {`{"type":"unavailable","error":{"code":"conflict"}}`, Problem{Code: "conflict", Known: true}},
		"shallow before deep":         {`{"error":{"details":[{"code":"not_found"}],"code":"conflict"}}`, Problem{Code: "conflict", Known: true, Details: []Detail{{Code: "not_found"}}}},
		"first of equals":             {`{"errors":[{"code":"conflict"},{"code":"not_found"}]}`, Problem{Code: "conflict", Known: true}},
		"known before unknown":        {`{"code":"E17","reason":"conflict"}`, Problem{Code: "conflict", Known: true}},
		"unknown code":                {`{"error":{"code":"order_locked","message":"No."}}`, Problem{Code: "order_locked", Message: "No."}},
		"a name is not a value":       {`{"conflict":true}`, Problem{}},
		"not a whole word":            {`{"code":"conflicts"}`, Problem{Code: "conflicts"}},
		"cut behind the code":         {`{"error":{"code":"conflict","message":"N`, Problem{Code: "conflict", Known: true}},
		"cut in the code":             {`{"error":{"code":"confl`, Problem{}},
		"numbers, null, nested lists": {`{"a":[1,null,true,[{}]],"b":1e999,"code":"conflict"}`, Problem{Code: "conflict", Known: true}},
		"wrong types":                 {`{"error":{"code":409,"message":["x"],"details":7}}`, Problem{}},
		"control characters":          {"{\"message\":\"a\\u0000b\\nc\"}", Problem{Message: "a b c"}},
		"escaped":                     {`{"code":"\u0063onflict"}`, Problem{Code: "conflict", Known: true}},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, ReadProblem([]byte(c.body)))
		})
	}
}

func TestReadProblemIsBounded(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 1_000_000)
	assert.Equal(t, Problem{}, ReadProblem([]byte(deep)))
	assert.Equal(t, Problem{}, ReadProblem([]byte(strings.Repeat("[", 1_000_000))))

	p := ReadProblem([]byte(`{"message":"` + strings.Repeat("ä", 1_000) + `","code":"` + strings.Repeat("x", 1_000) + `"}`))
	assert.LessOrEqual(t, len(p.Message), maxProblemText)
	assert.True(t, utf8.ValidString(p.Message))
	assert.Len(t, p.Code, maxProblemCode)

	p = ReadProblem([]byte(`{"error":{"code":"validation_failed","details":[` + strings.Repeat(`{"code":"x"},`, 200) + `{}]}}`))
	assert.Len(t, p.Details, maxProblemDetail)

	p = ReadProblem([]byte(`{"error":{"code":"conflict","pad":"` + strings.Repeat("x", 1<<20) + `"}}`))
	assert.Equal(t, "conflict", p.Code)
}
