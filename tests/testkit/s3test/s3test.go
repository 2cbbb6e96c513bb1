// Package s3test is an S3 server in memory. It checks signatures by itself, lists in short pages, and fails when a test
// requests it.
//
// Owner: one test. Any goroutine may call its methods.
// Never: knows the client. It follows only the specification, and signature.go is checked against AWS's examples.
// Start at Server; signature.go has SigV4.
package s3test

import (
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// These are the credentials, the region and the bucket of a server.
const (
	ID     = "AKIASPINDLETEST"
	Secret = "secret/of+the=test"
	Region = "test-region-1"
	Bucket = "backups"
)

// A Server is an S3 server with one bucket.
type Server struct {
	URL string

	mu       sync.Mutex
	objects  map[string]object
	requests int
	before   func(n int, r *http.Request) *Fault
	skew     time.Duration
	page     int
	sums     bool
}

type object struct {
	body     []byte
	modified time.Time
}

// A Fault is a failure of one request.
type Fault struct {
	Status int    // the status of the reply; 0 means that the connection is closed
	Code   string // S3's error code
	Late   bool   // the request is carried out first
}

// Start starts a server, which ends with the test. Its replies to writes have SHA-256 checksums.
func Start(t testing.TB) *Server {
	s := &Server{objects: map[string]object{}, page: 3, sums: true}
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	s.URL = h.URL
	return s
}

// Before makes the server call see before each request, with the request's number, counted from 1. see returns the
// fault of the request, or nil for none. Before(nil) ends this.
func (s *Server) Before(see func(n int, r *http.Request) *Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before, s.requests = see, 0
}

// Requests returns the number of requests since Before.
func (s *Server) Requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// Skew sets the difference of the server's clock from the real time.
func (s *Server) Skew(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.skew = d
}

// WithoutSums makes replies to writes have no SHA-256 and an ETag that is not an MD5, like a store that encrypts by
// itself.
func (s *Server) WithoutSums() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sums = false
}

// Keys returns the sorted keys of all objects that begin with prefix.
func (s *Server) Keys(prefix string) (keys []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.objects {
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// Change replaces an object by the result of change, or removes it if the result is nil.
func (s *Server) Change(key string, change func(body []byte) []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.objects[key]
	if o.body = change(slices.Clone(o.body)); o.body == nil {
		delete(s.objects, key)
	} else {
		s.objects[key] = o
	}
}

// Age makes an object older by a duration.
func (s *Server) Age(key string, by time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.objects[key]
	o.modified = o.modified.Add(-by)
	s.objects[key] = o
}

// ServeHTTP handles one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests++
	n, before := s.requests, s.before
	s.mu.Unlock()
	var fault *Fault
	if before != nil {
		fault = before(n, r)
	}
	if fault != nil && fault.Late {
		s.serve(httptest.NewRecorder(), r)
	}
	switch {
	case fault == nil:
		s.serve(w, r)
	case fault.Status == 0:
		panic(http.ErrAbortHandler)
	default:
		refuse(w, fault.Status, fault.Code, "as the test says")
	}
}

// refuse writes an error reply of S3.
func refuse(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	text, _ := xml.Marshal(struct {
		XMLName       xml.Name `xml:"Error"`
		Code, Message string
	}{Code: code, Message: message})
	_, _ = w.Write(text)
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now().Add(s.skew)
	w.Header().Set("Date", now.UTC().Format(http.TimeFormat))
	if status, code := verify(r, body, now); code != "" {
		refuse(w, status, code, "the signature does not hold")
		return
	}
	key, inBucket := strings.CutPrefix(r.URL.Path, "/"+Bucket+"/")
	o, has := s.objects[key]
	switch {
	case !inBucket:
		refuse(w, http.StatusNotFound, "NoSuchBucket", "there is no such bucket")
	case key == "" && r.Method == http.MethodGet && r.URL.Query().Get("list-type") == "2":
		s.list(w, r)
	case r.Method == http.MethodPut:
		s.put(w, r, key, body, now)
	case r.Method == http.MethodGet && has:
		_, _ = w.Write(o.body)
	case r.Method == http.MethodGet:
		refuse(w, http.StatusNotFound, "NoSuchKey", "there is no such key")
	case r.Method == http.MethodDelete:
		delete(s.objects, key)
		w.WriteHeader(http.StatusNoContent)
	default:
		refuse(w, http.StatusNotImplemented, "NotImplemented", r.Method)
	}
}

func (s *Server) put(w http.ResponseWriter, r *http.Request, key string, body []byte, now time.Time) {
	sum := sha256.Sum256(body)
	text := base64.StdEncoding.EncodeToString(sum[:])
	if told := r.Header.Get("X-Amz-Checksum-Sha256"); told != "" && told != text {
		refuse(w, http.StatusBadRequest, "BadDigest", "the checksum is another one")
		return
	}
	s.objects[key] = object{body, now}
	if s.sums {
		w.Header().Set("X-Amz-Checksum-Sha256", text)
		weak := md5.Sum(body)
		w.Header().Set("Etag", `"`+hex.EncodeToString(weak[:])+`"`)
	} else {
		w.Header().Set("Etag", fmt.Sprintf(`"%x"`, now.UnixNano()))
	}
}

// list handles ListObjectsV2, in short pages.
func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	type content struct {
		Key          string
		Size         int
		LastModified string
	}
	var page struct {
		XMLName               xml.Name `xml:"ListBucketResult"`
		Contents              []content
		IsTruncated           bool
		NextContinuationToken string `xml:",omitempty"`
	}
	var keys []string
	for key := range s.objects {
		if strings.HasPrefix(key, r.URL.Query().Get("prefix")) && key > r.URL.Query().Get("continuation-token") {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	if page.IsTruncated = len(keys) > s.page; page.IsTruncated {
		keys = keys[:s.page]
		page.NextContinuationToken = keys[s.page-1]
	}
	for _, key := range keys {
		o := s.objects[key]
		page.Contents = append(page.Contents, content{key, len(o.body), o.modified.UTC().Format("2006-01-02T15:04:05.000Z")})
	}
	text, _ := xml.Marshal(page)
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	_, _ = w.Write(text)
}
