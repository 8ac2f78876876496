package mockserver

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// faultNeeds and faultTakes say which fields a fault has beside those of every fault. What is in neither
// would mean nothing, and is refused.
var (
	faultNeeds = map[string][]string{
		faultStatus:            {"code"},
		faultStatusAfterCommit: {"code"},
		faultTruncate:          {"bytes"},
		faultDrip:              {"bytes", "delay"},
		faultDelay:             {"delay"},
		faultLate:              {"delay"},
	}
	faultTakes = map[string][]string{
		faultStatus:            {"error_code", "body", "retry_after"},
		faultStatusAfterCommit: {"error_code", "body", "retry_after", "not_held"},
		faultDelay:             {"stage"},
		faultHang:              {"stage"},
		faultRateLimit:         {"retry_after"},
		faultProxyError:        {"retry_after"},
	}
	faultLimits = []string{"method", "path", "connection", "nth", "times", "ratio", "optional"}
)

// fieldsOf lists the fields a fault may have, for messages.
func fieldsOf(name string) string {
	own := slices.Concat(faultNeeds[name], faultTakes[name])
	limits := faultLimits
	if name == faultRefuse {
		limits = limits[3:] // it happens before a request is known
	}
	return strings.Join(slices.Concat(own, limits), ", ")
}

// given lists the fields, beside those of every fault, that are set.
func (f faultSpec) given() []string {
	var out []string
	for _, field := range []struct {
		name string
		set  bool
	}{
		{"code", f.Code != 0}, {"error_code", f.ErrorCode != ""}, {"body", f.Body != nil}, {"retry_after", f.RetryAfter != ""},
		{"bytes", f.Bytes != nil}, {"delay", f.Delay != 0}, {"stage", f.Stage != ""}, {"not_held", f.NotHeld},
	} {
		if field.set {
			out = append(out, field.name)
		}
	}
	return out
}

// validate refuses a fault that means nothing or can never fire, because a test that arms it would pass
// without having tested anything.
func (f faultSpec) validate() error {
	if !slices.Contains(faultNames, f.Name) {
		return fmt.Errorf("unknown fault %q; there are %s", f.Name, strings.Join(faultNames, ", "))
	}
	given := f.given()
	for _, field := range given {
		if !slices.Contains(faultNeeds[f.Name], field) && !slices.Contains(faultTakes[f.Name], field) {
			return fmt.Errorf("%s takes no %s; its fields are %s", f.Name, field, fieldsOf(f.Name))
		}
	}
	for _, field := range faultNeeds[f.Name] {
		if !slices.Contains(given, field) {
			return fmt.Errorf("%s needs %s; its fields are %s", f.Name, field, fieldsOf(f.Name))
		}
	}
	if f.Name == faultRefuse && (f.Method != "" || f.Path != "" || f.Connection != "") {
		return errors.New("refuse happens before a request is known: it takes no method, path or connection; use reset")
	}
	if err := f.validateValues(); err != nil {
		return err
	}
	return f.validateLimits()
}

func (f faultSpec) validateValues() error {
	bodiless := f.Code == http.StatusNoContent || f.Code == http.StatusNotModified
	switch {
	case f.Code != 0 && (f.Code < 200 || f.Code > 599):
		return fmt.Errorf("code is a status from 200 to 599, not %d; the word in the body is error_code", f.Code)
	case bodiless && (f.Body != nil || f.ErrorCode != ""):
		return fmt.Errorf("an answer with status %d has no body: no body and no error_code", f.Code)
	case f.Body != nil && f.ErrorCode != "":
		return errors.New("body replaces the whole body: error_code would not be in it")
	case f.Bytes != nil && (*f.Bytes < 0 || (*f.Bytes == 0 && f.Name == faultDrip)):
		return fmt.Errorf("%s: %d is no number of bytes", f.Name, *f.Bytes)
	case f.Delay < 0:
		return fmt.Errorf("%s needs a positive delay", f.Name)
	case f.Stage != "" && f.Stage != StageBefore && f.Stage != StageInHandler && f.Stage != StageAfter:
		return fmt.Errorf("stage is before, in_handler or after, not %q", f.Stage)
	}
	return nil
}

var methods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions,
}

func (f faultSpec) validateLimits() error {
	switch {
	case f.Nth < 0 || f.Times < 0:
		return errors.New("nth and times must not be negative")
	case f.Ratio != nil && (*f.Ratio < 0 || *f.Ratio > 1 || *f.Ratio != *f.Ratio):
		return errors.New("ratio must be 0 to 1")
	case f.Method != "" && !slices.Contains(methods, strings.ToUpper(f.Method)):
		return fmt.Errorf("method is one of %s, not %q; without one every method is meant", strings.Join(methods, ", "), f.Method)
	case f.Path != "":
		return validatePattern(f.Path)
	}
	return nil
}

// validatePattern refuses a path that no request can have.
func validatePattern(path string) error {
	switch {
	case !strings.HasPrefix(path, "/"):
		return fmt.Errorf("path must begin with a slash, not %q", path)
	case path == basePath || strings.HasPrefix(path, basePath+"/"):
		rest := "/" + strings.TrimLeft(strings.TrimPrefix(path, basePath), "/")
		return fmt.Errorf("path is relative to the base URL, which ends in %s: write %q, not %q", basePath, rest, path)
	case path == adminRoot || strings.HasPrefix(path, adminPath):
		return errors.New("path: the admin API meets no faults")
	case strings.ContainsAny(path, "?#"):
		return fmt.Errorf("path is matched without the query: leave it out of %q", path)
	case strings.ContainsFunc(path, func(r rune) bool { return r <= ' ' || r > '~' }):
		return fmt.Errorf("path is compared as it is sent, percent-encoded, which %q is not", path)
	}
	for segment := range strings.SplitSeq(path[1:], "/") {
		inner, variable := segment, false
		if strings.HasPrefix(segment, "{") && strings.HasSuffix(segment, "}") && len(segment) > 1 {
			inner, variable = segment[1:len(segment)-1], true
		}
		if strings.ContainsAny(inner, "{}") || (!variable && (strings.Trim(segment, "*") == "" && segment != "" || strings.HasPrefix(segment, ":"))) {
			return fmt.Errorf("path: a segment that matches any one is written {id}, not %q", segment)
		}
	}
	return nil
}
