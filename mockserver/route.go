package mockserver

import (
	"net/url"
	"strings"
)

// basePath is where the API lives (F1). Nothing is served without it: a POS whose base URL lacks it must
// fail here, not first at Flavoso.
const basePath = "/v1"

// belowBase returns the path relative to the base URL; false = it is not below it.
func belowBase(escapedPath string) (string, bool) {
	path, ok := strings.CutPrefix(escapedPath, basePath)
	return path, ok && (path == "" || path[0] == '/')
}

// route is one operation of the API.
type route struct {
	method    string
	pattern   string // segments in braces are variables
	operation string // "orders.accept": what effects and OpenAPI call it
	run       func(*call) answer
}

func (r *route) write() bool { return r.method != "GET" }

// routeTable finds routes by the number and text of a path's segments.
type routeTable struct {
	routes []route
	bySize map[int][]*tableEntry
}

type tableEntry struct {
	*route
	segments []string
}

func newRouteTable() *routeTable {
	t := &routeTable{bySize: map[int][]*tableEntry{}}
	t.routes = append(t.routes, orderRoutes()...)
	t.routes = append(t.routes, bookingRoutes()...)
	t.routes = append(t.routes, menuRoutes()...)
	t.routes = append(t.routes, storeRoutes()...)
	for i := range t.routes {
		segments := strings.Split(t.routes[i].pattern, "/")[1:]
		t.bySize[len(segments)] = append(t.bySize[len(segments)], &tableEntry{&t.routes[i], segments})
	}
	return t
}

// find returns the route of a request, its variables, and the methods the path has when it has not this
// one. The path is the escaped one; a trailing slash is another path (D3).
func (t *routeTable) find(method, escapedPath string) (r *route, params []string, allowed []string) {
	if !strings.HasPrefix(escapedPath, "/") {
		return nil, nil, nil
	}
	segments := strings.Split(escapedPath[1:], "/")
	for i, s := range segments {
		if strings.Contains(s, "%") {
			plain, err := url.PathUnescape(s)
			if err != nil {
				return nil, nil, nil
			}
			segments[i] = plain
		}
	}
	for _, e := range t.bySize[len(segments)] {
		vars, ok := e.match(segments)
		if !ok {
			continue
		}
		if e.method == method {
			return e.route, vars, nil
		}
		allowed = append(allowed, e.method)
	}
	return nil, nil, allowed
}

func (e *tableEntry) match(segments []string) (vars []string, ok bool) {
	for i, want := range e.segments {
		switch {
		case want[0] == '{' && segments[i] != "":
			vars = append(vars, segments[i])
		case want != segments[i]:
			return nil, false
		}
	}
	return vars, true
}
