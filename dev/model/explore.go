package main

import "slices"

// result is what an exploration found.
type result struct {
	states  int
	edges   int
	depth   int
	bad     string   // the property that does not hold; "" = all do
	trace   []string // the shortest way there
	holes   map[hole]int
	ways    map[hole][]string // the shortest way to each
	stopped bool              // the limit of states was reached
}

// from is how a state was reached first.
type from struct {
	parent int32
	depth  int32
}

// explorer visits every state of a model, nearest first.
type explorer struct {
	model
	index  map[name]int32
	came   []from
	queue  []state // of the depth being expanded
	next   []state
	atRest []bool
	back   [][]int32 // benign steps, against their direction
	limit  int
}

// explore visits every state that can be reached and judges it; at most limit of them.
func explore(sc *scenario, wrong mutant, limit int) (res result) {
	x := &explorer{model: model{scenario: sc, wrong: wrong}, index: map[name]int32{}, limit: limit}
	res.holes, res.ways = map[hole]int{}, map[hole][]string{}
	x.add(&state{}, -1, 0)
	at := int32(0)
	for len(x.next) > 0 && res.bad == "" {
		x.queue, x.next = x.next, x.queue[:0]
		if len(x.came) > limit {
			res.stopped = true
			break
		}
		for i := range x.queue {
			s := &x.queue[i]
			if n := x.state(s); n.bad != "" {
				res.bad, res.trace = n.bad, x.way(at)
				break
			} else if n.hole != noHole {
				x.hole(&res, n.hole, at, nil)
			}
			x.steps(s, func(n *state, l label, why note) {
				res.edges++
				if res.bad != "" {
					return
				}
				if why.bad != "" {
					res.bad, res.trace = why.bad, append(x.way(at), l.tell(sc))
					return
				}
				if why.hole != noHole {
					x.hole(&res, why.hole, at, &l)
				}
				to := x.add(n, at, x.came[at].depth+1)
				if l.benign() && to != at {
					x.back[to] = append(x.back[to], at)
				}
			})
			if res.bad != "" {
				break
			}
			at++
		}
		res.depth++
	}
	res.states = len(x.came)
	if res.bad == "" && !res.stopped {
		if stuck := x.stuck(); stuck >= 0 {
			res.bad, res.trace = "an operation waits for ever, although nothing fails any more", x.way(stuck)
		}
	}
	return res
}

// steps emits every step from s, of which what follows is in canonical form.
func (x *explorer) steps(s *state, emit func(*state, label, note)) {
	x.emit = func(n *state, l label, why note) {
		n.canonical(&x.model)
		emit(n, l, why)
	}
	x.clients(s)
	x.flavoso(s)
	x.tick(s)
}

func (x *explorer) add(s *state, parent, depth int32) int32 {
	id := s.name()
	if at, ok := x.index[id]; ok {
		return at
	}
	at := int32(len(x.came))
	x.index[id] = at
	x.came = append(x.came, from{parent, depth})
	x.back = append(x.back, nil)
	x.atRest = append(x.atRest, x.rests(s))
	x.next = append(x.next, *s)
	return at
}

// hole counts an occurrence, and keeps the way to the first.
func (x *explorer) hole(res *result, h hole, at int32, l *label) {
	if res.holes[h]++; res.holes[h] == 1 {
		way := x.way(at)
		if l != nil {
			way = append(way, l.tell(x.scenario))
		}
		res.ways[h] = way
	}
}

// stuck returns a state from which no benign way leads to rest; -1 = there is none.
func (x *explorer) stuck() int32 {
	reached := slices.Clone(x.atRest)
	var todo []int32
	for at, rest := range reached {
		if rest {
			todo = append(todo, int32(at))
		}
	}
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, p := range x.back[at] {
			if !reached[p] {
				reached[p] = true
				todo = append(todo, p)
			}
		}
	}
	return int32(slices.Index(reached, false))
}

// way tells the steps to a state, found by going them again.
func (x *explorer) way(at int32) []string {
	var path []int32
	for p := at; p >= 0; p = x.came[p].parent {
		path = append(path, p)
	}
	slices.Reverse(path)
	emit := x.emit
	defer func() { x.emit = emit }()
	s, way := state{}, []string{}
	for _, to := range path[1:] {
		found := false
		x.steps(&s, func(n *state, l label, _ note) {
			if at, ok := x.index[n.name()]; ok && at == to && !found {
				found, s = true, *n
				way = append(way, l.tell(x.scenario))
			}
		})
		if !found {
			panic("model: a way that was found cannot be gone again")
		}
	}
	return way
}
