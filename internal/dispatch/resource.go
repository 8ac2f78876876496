package dispatch

import "encoding/json"

// resourceID is the id of the resource in an answer (F17); "" = it has none.
func resourceID(body []byte) string {
	var resource struct {
		ID string `json:"id"`
	}
	_ = json.Unmarshal(body, &resource) // what cannot be read has none
	return resource.ID
}

// sameResource reports whether two bodies are of one resource, as far as they tell.
func sameResource(a, b []byte) bool {
	one, other := resourceID(a), resourceID(b)
	return one == "" || other == "" || one == other
}
