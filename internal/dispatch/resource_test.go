package dispatch

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// decodedID is what encoding/json finds.
func decodedID(body []byte) string {
	var resource struct {
		ID string `json:"id"`
	}
	_ = json.Unmarshal(body, &resource)
	return resource.ID
}

var resourceBodies = []string{
	``, `null`, `[]`, `{}`, ` { } `, `{"id":"a"}`, `{"id" : "a" }`, `{"ID":"a","Id":"b"}`, `{"id":"a","id":"b"}`, `{"id":"a","id":null}`,
	`{"id":7}`, `{"id":"a","id":7}`, `{"id":{"id":"a"}}`, `{"o":{"id":"a"},"id":"b"}`, `{"a":[{"id":"x"},"}"],"id":"b","z":1}`,
	`{"a":"\"","id":"b"}`, `{"a":"\\","id":"b"}`, `{"\u0069d":"a"}`, `{"id":"a\u0062"}`, `{"id":"é"}`, `{"é":1,"id":"a"}`, `{"id":"a"} x`,
	`{"id":"a"`, `{"id":"a",}`, `{"n":-1.5e3,"t":true,"x":null,"id":"a"}`, `{"id":"a","n":12}`, `{"i":"a","idx":"b","id":"c"}`,
	`{"id":""}`, "\n{\t\"id\":\r\n\"a\"}\n", `{"object":"order","id":"o-1","items":[{"id":"i1","name":"}{]["}],"totals":{"total":{"amount":1}}}`,
}

func TestResourceIDIsWhatDecodingFinds(t *testing.T) {
	for _, body := range resourceBodies {
		require.Equal(t, decodedID([]byte(body)), resourceID([]byte(body)), body)
	}
	_, sure := quickID([]byte(resourceBodies[len(resourceBodies)-1]))
	require.True(t, sure, "an order needs no decoding")
}

func FuzzResourceID(f *testing.F) {
	for _, body := range resourceBodies {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if id := resourceID(body); json.Valid(body) {
			require.Equal(t, decodedID(body), id)
		}
	})
}
