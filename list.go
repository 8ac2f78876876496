package flavoso

import (
	"context"
	"encoding/json"
	"iter"
	"net/url"
	"strconv"
)

// maxPageSize is the most entries of one page (A4).
const maxPageSize = 100

// pageQuery is the part of a list's query that every list has.
func pageQuery(size int, cursor string) (url.Values, error) {
	q := url.Values{}
	switch {
	case size < 0 || size > maxPageSize:
		return nil, &ParamError{Field: "limit", Rule: "must be 1 to 100, or 0 for the default"}
	case size > 0:
		q.Set("limit", strconv.Itoa(size))
	}
	if cursor != "" {
		q.Set("cursor", cursor)
	}
	return q, nil
}

// rawPage is a page whose entries are not decoded yet, so that one that does not fit spoils no other.
type rawPage struct {
	Data       []json.RawMessage `json:"data"`
	HasMore    bool              `json:"has_more"`
	NextCursor string            `json:"next_cursor"`
}

// next is the cursor of the following page; "" = this is the last one.
func (p *rawPage) next() string {
	if !p.HasMore {
		return ""
	}
	return p.NextCursor
}

// listPage reads one page of a collection.
func listPage[T any](ctx context.Context, c *Client, collection string, q url.Values, opts []ReadOption) ([]*T, string, error) {
	page, err := Get[rawPage](ctx, c, Path(collection), q, opts...)
	if err != nil {
		return nil, "", err
	}
	entries := make([]*T, len(page.Data))
	for i, raw := range page.Data {
		entries[i] = new(T)
		if err := json.Unmarshal(raw, entries[i]); err != nil {
			return nil, "", &DecodeError{Kind: collection + ".list", Status: 200, Body: raw, Err: err}
		}
	}
	return entries, page.next(), nil
}

// walk goes over a collection page by page.
func walk[T any](read func(cursor string) ([]*T, string, error)) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		for cursor := ""; ; {
			entries, next, err := read(cursor)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, entry := range entries {
				if !yield(entry, nil) {
					return
				}
			}
			// A server that gives the same cursor again would be walked for ever.
			if next == "" || next == cursor {
				return
			}
			cursor = next
		}
	}
}
