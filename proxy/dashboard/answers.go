package dashboard

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"

	"spindle/proxy/store"
)

// A failure is an error with the HTTP status of its reply. code names the kind of error for programs.
type failure struct {
	status int
	code   string
	text   string
}

func (f *failure) Error() string { return f.text }

func failed(status int, code, format string, args ...any) *failure {
	return &failure{status, code, fmt.Sprintf(format, args...)}
}

// An errorBody is the JSON body of every error reply.
type errorBody struct {
	Error struct {
		Code    string `json:"code"`
		Message string `json:"message"`
		Active  string `json:"active,omitempty"` // the URL of the active dashboard
	} `json:"error"`
}

// explain finds the status and the code of an error.
func explain(err error) *failure {
	f, entry, maybe := (*failure)(nil), (*store.EntryError)(nil), (*store.MaybeError)(nil)
	switch {
	case errors.As(err, &f):
		return &failure{f.status, f.code, err.Error()}
	case errors.Is(err, store.ErrConflict):
		return &failure{http.StatusConflict, "changed", "the product has changed meanwhile: look again and repeat"}
	case errors.Is(err, store.ErrLost):
		return &failure{http.StatusServiceUnavailable, "not_active", "this dashboard is no longer the active one"}
	case errors.As(err, &entry):
		return &failure{http.StatusConflict, "damaged", err.Error()}
	case errors.As(err, &maybe):
		return &failure{http.StatusServiceUnavailable, "unknown", maybe.Error()}
	}
	return &failure{http.StatusBadGateway, "failed", err.Error()}
}

// refuse replies with an error.
func refuse(w http.ResponseWriter, f *failure, active string) {
	var body errorBody
	body.Error.Code, body.Error.Message, body.Error.Active = f.code, f.text, active
	answer(w, f.status, body)
}

// answer writes a reply as JSON. json.Marshal escapes <, > and &, so no name in a reply can act as markup.
func answer(w http.ResponseWriter, status int, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	secure(w.Header())
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n'))
}

// secure sets the headers of every reply.
func secure(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Cache-Control", "no-store")
}

// maxBody limits the size of a request's body. The largest body is a plan that lists single slots.
const maxBody = 2 << 20

// readBody decodes the body of a request into v. An empty body is an empty object.
func readBody(w http.ResponseWriter, r *http.Request, v any) error {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if long := (*http.MaxBytesError)(nil); errors.As(err, &long) {
		return failed(http.StatusRequestEntityTooLarge, "too_large", "the body has more than %d bytes", maxBody)
	}
	if err != nil {
		return failed(http.StatusBadRequest, "bad_request", "the body did not arrive: %s", err)
	}
	if len(text) == 0 {
		return nil
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return failed(http.StatusUnsupportedMediaType, "bad_request", "the body has to be application/json")
	}
	return decodeBody(text, v)
}

// decodeBody refuses unknown fields, so that a misspelt field is not silently replaced by its default.
func decodeBody(text []byte, v any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(v); err != nil {
		return failed(http.StatusBadRequest, "bad_request", "the body is not the JSON that is expected: %s", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return failed(http.StatusBadRequest, "bad_request", "there is text after the body's object")
	}
	return nil
}
