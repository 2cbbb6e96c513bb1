package objectstore

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// S3Options say where a bucket is, and how to access it.
type S3Options struct {
	Bucket, Prefix string // prefix: of all keys, without "/" at its ends
	Endpoint       string // "https://host:port". Empty: AWS's of the region
	Region         string
	VirtualHost    bool // the bucket is part of the host's name, also with an endpoint
	Credentials    Credentials
	TLS            *tls.Config
	Tries          int           // tries of a request; at least 1
	Pause          time.Duration // before the second try; it doubles for each further try
	Now            func() time.Time
}

// S3 is a bucket.
type S3 struct {
	o    S3Options
	base url.URL // of the bucket
	http *http.Client
}

// requestPatience bounds one try of a request. An object of 16 MB then needs 28 KB a second.
const requestPatience = 10 * time.Minute

// atOnce bounds the memory that is allocated for a reply's announced length before bytes arrive.
const atOnce = 32 << 20

// OpenS3 makes a client for a bucket. It sends nothing.
func OpenS3(o S3Options) (*S3, error) {
	endpoint, virtual := o.Endpoint, o.VirtualHost
	if endpoint == "" {
		endpoint, virtual = "https://s3."+o.Region+".amazonaws.com", true
	}
	base, err := url.Parse(endpoint)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the endpoint %q is no address", endpoint)
	case base.Scheme != "http" && base.Scheme != "https" || base.Host == "" || strings.Trim(base.Path, "/") != "":
		return nil, fmt.Errorf("the endpoint %q is not of the form https://HOST:PORT", endpoint)
	case o.Credentials.ID == "" || o.Credentials.Secret == "":
		return nil, errors.New("the store needs an access key: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a " +
			"file with access-key-id and secret-access-key by --settings")
	}
	s := &S3{o: o, base: url.URL{Scheme: base.Scheme, Host: base.Host, Path: "/"}}
	if virtual {
		s.base.Host = o.Bucket + "." + base.Host
	} else {
		s.base.Path = "/" + o.Bucket + "/"
	}
	// Only HTTP/1.1 is used, because several connections carry more than the streams of one.
	s.http = &http.Client{Timeout: requestPatience, Transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: o.TLS, DisableCompression: true, MaxIdleConnsPerHost: 16,
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: 2 * time.Minute, IdleConnTimeout: time.Minute,
	}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return s, nil
}

// String returns the store's address.
func (s *S3) String() string {
	text := "s3://" + s.o.Bucket
	if s.o.Prefix != "" {
		text += "/" + s.o.Prefix
	}
	if s.o.Endpoint != "" {
		text += " at " + s.o.Endpoint
	}
	return text
}

func (s *S3) key(key string) string {
	if s.o.Prefix == "" {
		return key
	}
	return s.o.Prefix + "/" + key
}

// Put stores an object. The store checks the received bytes against the signed SHA-256. checked means that the checksum
// in the store's reply is right. In stores that do not encrypt by themselves, the ETag serves too, because it is an
// MD5.
func (s *S3) Put(ctx context.Context, key string, body []byte) (checked bool, err error) {
	sum := sha256.Sum256(body)
	header := http.Header{"X-Amz-Checksum-Sha256": {base64.StdEncoding.EncodeToString(sum[:])}}
	_, reply, err := s.do(ctx, "write", http.MethodPut, key, "", header, body, sum)
	if err != nil {
		return false, err
	}
	if told := reply.Get("X-Amz-Checksum-Sha256"); told != "" {
		return told == header.Get("X-Amz-Checksum-Sha256"), nil
	}
	weak := md5.Sum(body)
	return strings.Trim(reply.Get("Etag"), `"`) == hex.EncodeToString(weak[:]), nil
}

// Get returns an object.
func (s *S3) Get(ctx context.Context, key string) ([]byte, error) {
	body, _, err := s.do(ctx, "read", http.MethodGet, key, "", nil, nil, sha256.Sum256(nil))
	if e := (*S3Error)(nil); errors.As(err, &e) && e.Code == "NoSuchKey" {
		return nil, fmt.Errorf("%s in %s: %w", s.key(key), s, ErrMissing)
	}
	return body, err
}

// Delete removes an object.
func (s *S3) Delete(ctx context.Context, key string) error {
	_, _, err := s.do(ctx, "remove", http.MethodDelete, key, "", nil, nil, sha256.Sum256(nil))
	if e := (*S3Error)(nil); errors.As(err, &e) && e.Code == "NoSuchKey" {
		return nil
	}
	return err
}

// A listReply is the reply of ListObjectsV2.
type listReply struct {
	Contents []struct {
		Key          string
		Size         int64
		LastModified time.Time
	}
	IsTruncated           bool
	NextContinuationToken string
}

// List asks for pages of 1,000 objects.
func (s *S3) List(ctx context.Context, prefix string, see func(Object)) error {
	next := ""
	for {
		pairs := map[string]string{"list-type": "2", "prefix": s.key(prefix)}
		if next != "" {
			pairs["continuation-token"] = next
		}
		body, _, err := s.do(ctx, "list", http.MethodGet, "", query(pairs), nil, nil, sha256.Sum256(nil))
		if err != nil {
			return err
		}
		var page listReply
		if err := xml.Unmarshal(body, &page); err != nil {
			return fmt.Errorf("%s: its list is not S3's: %w", s, err)
		}
		for _, c := range page.Contents {
			key, under := strings.CutPrefix(c.Key, s.key(""))
			if under {
				see(Object{Key: key, Size: c.Size, Modified: c.LastModified})
			}
		}
		if !page.IsTruncated {
			return nil
		}
		if next = page.NextContinuationToken; next == "" {
			return fmt.Errorf("%s: its list breaks off", s)
		}
	}
}

// do sends a request until a reply is final, at most o.Tries times. key is empty for the bucket itself.
func (s *S3) do(ctx context.Context, verb, method, key, query string, header http.Header, body []byte,
	sum [sha256.Size]byte) (reply []byte, head http.Header, err error) {
	pause := s.o.Pause
	for try := 1; ; try++ {
		again := false
		reply, head, again, err = s.once(ctx, verb, method, key, query, header, body, sum)
		if err == nil || !again || try >= s.o.Tries {
			return reply, head, err
		}
		select {
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		case <-time.After(pause/2 + rand.N(pause)):
		}
		pause = min(2*pause, 10*time.Second)
	}
}

// once sends a request once. again reports whether another try may help.
func (s *S3) once(ctx context.Context, verb, method, key, query string, header http.Header, body []byte,
	sum [sha256.Size]byte) (reply []byte, head http.Header, again bool, err error) {
	to := s.base
	shown := to.Path
	if key != "" {
		to.Path += s.key(key)
		shown = s.key(key)
	}
	to.RawPath, to.RawQuery = encode(to.Path, true), query
	r, err := http.NewRequestWithContext(ctx, method, to.String(), bytes.NewReader(body))
	if err != nil {
		return nil, nil, false, err
	}
	for name, values := range header {
		r.Header[name] = values
	}
	now := s.o.Now()
	sign(r, hex.EncodeToString(sum[:]), s.o.Region, s.o.Credentials, now)
	failed := func(err error) error { return fmt.Errorf("%s cannot %s %s: %w", s, verb, shown, err) }
	response, err := s.http.Do(r)
	if err != nil {
		if ctx.Err() != nil {
			return nil, nil, false, context.Cause(ctx)
		}
		if inner := (*url.Error)(nil); errors.As(err, &inner) {
			err = inner.Err // its text would repeat the address
		}
		return nil, nil, !isCertificate(err), failed(err)
	}
	defer response.Body.Close()
	got := bytes.NewBuffer(make([]byte, 0, min(max(response.ContentLength, 0), atOnce)+bytes.MinRead))
	_, err = got.ReadFrom(io.LimitReader(response.Body, mostBytes+1))
	reply = got.Bytes()
	switch {
	case ctx.Err() != nil:
		return nil, nil, false, context.Cause(ctx)
	case err != nil:
		return nil, nil, true, failed(err)
	case len(reply) > mostBytes:
		return nil, nil, false, tooLarge(shown)
	case response.StatusCode/100 == 2:
		return reply, response.Header, false, nil
	}
	e := &S3Error{Verb: verb, Key: shown, Store: s.String(), Status: response.StatusCode}
	_ = xml.Unmarshal(reply, e) // of a reply that is not S3's, only the status is known
	e.explain(s, response, now)
	code := response.StatusCode
	again = code >= 500 && code != http.StatusNotImplemented && code != http.StatusInsufficientStorage ||
		code == http.StatusTooManyRequests || e.Code == "RequestTimeout"
	return nil, nil, again, e
}

// isCertificate reports whether a connection failed because of its certificate. Then another try does not help.
func isCertificate(err error) bool {
	return errors.As(err, new(*tls.CertificateVerificationError)) || errors.As(err, new(tls.RecordHeaderError))
}

// An S3Error is a refusal by the store.
type S3Error struct {
	Verb, Key, Store string `xml:"-"`
	Status           int    `xml:"-"`
	Why              string `xml:"-"` // explanation and remedy for the operator; "": Code and Message say everything
	Code             string // S3's name of the error; empty: the reply was not S3's
	Message          string
}

func (e *S3Error) Error() string {
	text := fmt.Sprintf("%s refuses to %s %s: ", e.Store, e.Verb, e.Key)
	if e.Why != "" {
		text += e.Why + " ("
	}
	text += fmt.Sprintf("status %d", e.Status)
	if e.Code != "" {
		text += fmt.Sprintf(", %s", e.Code)
	}
	if e.Message != "" {
		text += fmt.Sprintf(": %.300q", e.Message)
	}
	if e.Why != "" {
		text += ")"
	}
	return text
}

// explain sets Why. sent is this host's time at the request.
func (e *S3Error) explain(s *S3, response *http.Response, sent time.Time) {
	if e.Code == "" && e.Status == http.StatusNotFound && e.Verb != "list" {
		e.Code = "NoSuchKey" // for a store that reports it only by the status
	}
	switch e.Code {
	case "InvalidAccessKeyId":
		e.Why = fmt.Sprintf("it does not know the access key %q", s.o.Credentials.ID)
	case "SignatureDoesNotMatch":
		e.Why = "the secret access key is wrong, or something on the way changes requests"
	case "ExpiredToken", "InvalidToken", "TokenRefreshRequired":
		e.Why = "the session token is not valid any more: get new credentials"
	case "AccessDenied":
		e.Why = fmt.Sprintf("the access key %q may not do this", s.o.Credentials.ID)
	case "NoSuchBucket":
		e.Why = fmt.Sprintf("there is no bucket %q: make it first", s.o.Bucket)
	case "RequestTimeTooSkewed":
		e.Why = "the clocks of this host and of the store differ too much: set this host's clock"
		if theirs, err := http.ParseTime(response.Header.Get("Date")); err == nil {
			e.Why = fmt.Sprintf("this host's clock says %s and the store's %s: set this host's clock",
				sent.UTC().Format(time.DateTime), theirs.UTC().Format(time.DateTime))
		}
	case "PermanentRedirect", "TemporaryRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException":
		e.Why = fmt.Sprintf("the bucket is not in the region %q: set --region", s.o.Region)
		if region := response.Header.Get("X-Amz-Bucket-Region"); region != "" {
			e.Why = fmt.Sprintf("the bucket is in the region %q, not in %q: set --region", region, s.o.Region)
		}
	case "XMinioStorageFull", "QuotaExceeded", "InsufficientStorage":
		e.Why = "it is full: prune older backups, or give it more room"
	}
	if e.Code == "" && e.Status == http.StatusInsufficientStorage {
		e.Why = "it is full: prune older backups, or give it more room"
	}
}
