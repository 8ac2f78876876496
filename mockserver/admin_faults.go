package mockserver

import (
	"cmp"
	"errors"
	"net/http"
	"strings"
)

// adminFault is an armed fault as the admin API shows it.
type adminFault struct {
	ID    string `json:"id"`
	Fired int    `json:"fired"`
	Seen  int    `json:"seen"`
	faultSpec
}

func (s *Server) adminFaults(*http.Request) (int, any, error) {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	out := []adminFault{}
	for _, f := range s.faults.rules {
		if !f.gone {
			out = append(out, adminFault{f.id, f.fired, f.seen, f.spec})
		}
	}
	return listOf(out)
}

func (s *Server) adminInject(r *http.Request) (int, any, error) {
	var in faultSpec
	if err := decodeAdmin(r, &in); err != nil {
		return 0, nil, err
	}
	armed := s.arm(in)
	if err := armed.Err(); err != nil {
		return 0, nil, badRequest(err)
	}
	return http.StatusCreated, map[string]string{"id": armed.ID()}, nil
}

// adminRemoveFaults takes away the fault named in the path or in ?id=, or all of them.
func (s *Server) adminRemoveFaults(r *http.Request) (int, any, error) {
	id := cmp.Or(r.PathValue("id"), r.URL.Query().Get("id"))
	if id == "" {
		s.ClearFaults()
		return http.StatusNoContent, nil, nil
	}
	if !s.faults.remove(id) {
		return 0, nil, &adminError{status: http.StatusNotFound, message: "no fault " + id}
	}
	return http.StatusNoContent, nil, nil
}

func (s *Server) adminSwitches(*http.Request) (int, any, error) {
	return http.StatusOK, s.Switches(), nil
}

// adminSwitch changes switches: {"hold_from":"receipt"}.
func (s *Server) adminSwitch(r *http.Request) (int, any, error) {
	var in map[string]any
	if err := decodeAdmin(r, &in); err != nil {
		return 0, nil, err
	}
	values := map[string]string{}
	for name, v := range in {
		switch v.(type) {
		case string, bool, float64:
			values[name] = strings.Trim(string(encode(v)), `"`)
		default:
			return 0, nil, badRequest(errors.New("switch " + name + " takes a string, a number, true or false"))
		}
	}
	if err := s.SetSwitches(func(sw *Switches) error {
		for _, name := range sortedKeys(values) {
			if err := sw.Set(name, values[name]); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return 0, nil, badRequest(err)
	}
	return s.adminSwitches(r)
}
