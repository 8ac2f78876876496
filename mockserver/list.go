package mockserver

import (
	"encoding/base64"
	"encoding/json"
	"hash/fnv"
	"net/url"
	"strconv"
)

// list is a page of a collection.
type list struct {
	Object     string `json:"object"`
	Data       []any  `json:"data"`
	HasMore    bool   `json:"has_more"`
	NextCursor string `json:"next_cursor,omitzero"`
}

const (
	defaultPage = 50
	maxPage     = 100
)

// cursor names the last entry of a page by its place in the order of arrival, which never changes: new
// entries come behind it, and one that is deleted leaves its place empty. Filters binds it to the query it was made for.
type cursor struct {
	After   int    `json:"a"`
	Filters uint32 `json:"f"`
}

// page reads the paging parameters of a query; the other parameters are the filters.
func page(q url.Values) (after, limit int, filters uint32, p *problem) {
	limit = defaultPage
	if s := q.Get("limit"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > maxPage {
			return 0, 0, 0, &problem{Code: codeInvalidRequest, Message: "limit must be 1 to " + strconv.Itoa(maxPage), Param: "limit"}
		}
		limit = n
	}
	filters = filterSum(q)
	if s := q.Get("cursor"); s != "" {
		var c cursor
		raw, err := base64.RawURLEncoding.DecodeString(s)
		if err != nil || json.Unmarshal(raw, &c) != nil || c.After < 0 {
			return 0, 0, 0, &problem{Code: codeInvalidRequest, Message: "not a cursor of this API", Param: "cursor"}
		}
		if c.Filters != filters {
			return 0, 0, 0, &problem{Code: codeInvalidRequest, Message: "the cursor belongs to other filters", Param: "cursor"}
		}
		after = c.After
	}
	return after, limit, filters, nil
}

func filterSum(q url.Values) uint32 {
	f := url.Values{}
	for name, values := range q {
		if name != "cursor" && name != "limit" {
			f[name] = values
		}
	}
	h := fnv.New32a()
	h.Write([]byte(f.Encode()))
	return h.Sum32()
}

// paginate picks the page of all (in the order of arrival) whose entries match.
func paginate[T any](all []T, q url.Values, match func(T) bool, show func(T) any) (list, *problem) {
	after, limit, filters, p := page(q)
	if p != nil {
		return list{}, p
	}
	l := list{Object: "list", Data: []any{}}
	for i := after; i < len(all); i++ {
		if !match(all[i]) {
			continue
		}
		if len(l.Data) == limit {
			l.HasMore = true
			break
		}
		l.Data = append(l.Data, show(all[i]))
		after = i + 1
	}
	if l.HasMore {
		raw, err := json.Marshal(cursor{after, filters})
		if err == nil {
			l.NextCursor = base64.RawURLEncoding.EncodeToString(raw)
		}
	}
	return l, nil
}
