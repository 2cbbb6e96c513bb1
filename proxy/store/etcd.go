package store

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Options are the options of OpenEtcd.
type Options struct {
	User, Password string        // "" means no authentication
	TLS            *tls.Config   // nil means no TLS
	Timeout        time.Duration // the time limit of one call at one member
}

// An Etcd is a store in the members of an etcd, 3.4 or later, reached through their JSON gateway.
//
// A call is tried once at each member, in a fixed order that begins with the member that answered last. A write that
// may have arrived at one member is not tried at another.
//
// Source: etcd's API reference, for 3.4.
type Etcd struct {
	o         Options
	endpoints []string // http://host:port
	first     atomic.Int64
	client    *http.Client
	token     struct {
		sync.Mutex
		text string
	}
}

// OpenEtcd returns a store for members "host:port". It connects at the first call.
func OpenEtcd(members []string, o Options) *Etcd {
	if o.Timeout <= 0 {
		o.Timeout = 3 * time.Second
	}
	scheme := "http://"
	if o.TLS != nil {
		scheme = "https://"
	}
	e := &Etcd{o: o}
	for _, m := range members {
		e.endpoints = append(e.endpoints, scheme+m)
	}
	dialer := &net.Dialer{Timeout: min(o.Timeout, 2*time.Second), KeepAlive: 15 * time.Second}
	e.client = &http.Client{
		Transport: &http.Transport{
			DialContext: dialer.DialContext, TLSClientConfig: o.TLS, TLSHandshakeTimeout: o.Timeout,
			MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return e
}

func (e *Etcd) String() string { return "etcd " + strings.Join(e.endpoints, ",") }

// Close closes idle connections.
func (e *Etcd) Close() { e.client.CloseIdleConnections() }

// A refusal is an error reply of etcd: the call was not carried out, unless a MaybeError wraps it.
type refusal struct {
	status int
	code   int // the gRPC code
	text   string
}

func (r *refusal) Error() string { return r.text }

// These are the gRPC codes in replies of etcd.
const (
	codeUnknown         = 2
	codeDeadline        = 4
	codeNotFound        = 5
	codeOutOfRange      = 11
	codeUnavailable     = 14
	codeUnauthenticated = 16
)

// expiredToken reports whether the call may succeed with a new token.
func (r *refusal) expiredToken() bool {
	return r.code == codeUnauthenticated || strings.Contains(r.text, "invalid auth token") ||
		strings.Contains(r.text, "revision in auth store is old")
}

// elsewhere reports whether another member may succeed. etcd also replies "unavailable" to requests that it has
// cancelled.
func (r *refusal) elsewhere() bool {
	return r.code == codeUnavailable || r.code == codeDeadline || r.status >= 500
}

// notDone reports whether etcd refused the write before it proposed it to the cluster.
func (r *refusal) notDone() bool {
	return strings.Contains(r.text, "no leader") || strings.Contains(r.text, "not capable") ||
		strings.Contains(r.text, "server stopped") && r.code == codeUnavailable
}

// call sends one request. If writes is true, the request must not be carried out twice.
func (e *Etcd) call(ctx context.Context, path string, in, out any, writes bool) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	var failed error
	first := e.first.Load()
	for i := range int64(len(e.endpoints)) {
		at := (first + i) % int64(len(e.endpoints))
		err := e.authorised(ctx, e.endpoints[at], path, body, out)
		r := (*refusal)(nil)
		switch {
		case err == nil:
			e.first.Store(at)
			return nil
		case errors.As(err, &r) && !r.elsewhere():
			return r
		case ctx.Err() != nil && !writes:
			return err
		case writes && !(r != nil && r.notDone()) && !unsent(err):
			return &MaybeError{err}
		}
		failed = fmt.Errorf("%s: %w", e.endpoints[at], err)
	}
	return failed
}

// unsent reports whether no member has received the request, because no connection could be made.
func unsent(err error) bool {
	op := (*net.OpError)(nil)
	return errors.As(err, &op) && op.Op == "dial"
}

// authorised is post with a token. If the token has expired, it renews the token and tries once more.
func (e *Etcd) authorised(ctx context.Context, endpoint, path string, body []byte, out any) error {
	ctx, cancel := context.WithTimeout(ctx, e.o.Timeout)
	defer cancel()
	for again := false; ; again = true {
		token, err := e.authenticate(ctx, endpoint, again)
		if err != nil {
			return err
		}
		response, err := e.post(ctx, endpoint, path, token, body)
		if err == nil {
			err = decode(response, out)
		}
		if r := (*refusal)(nil); !again && e.o.User != "" && errors.As(err, &r) && r.expiredToken() {
			continue
		}
		return err
	}
}

// authenticate returns the token in use. If there is none, or if again is true, it gets a new one.
func (e *Etcd) authenticate(ctx context.Context, endpoint string, again bool) (string, error) {
	if e.o.User == "" {
		return "", nil
	}
	e.token.Lock()
	defer e.token.Unlock()
	if e.token.text != "" && !again {
		return e.token.text, nil
	}
	body, err := json.Marshal(map[string]string{"name": e.o.User, "password": e.o.Password})
	if err != nil {
		return "", err
	}
	response, err := e.post(ctx, endpoint, "/v3/auth/authenticate", "", body)
	if err != nil {
		return "", err
	}
	var reply struct {
		Token string `json:"token"`
	}
	if err := decode(response, &reply); err != nil {
		return "", err
	}
	e.token.text = reply.Token
	return reply.Token, nil
}

// post sends a request and returns a response with status 200. The caller must close its body.
func (e *Etcd) post(ctx context.Context, endpoint, path, token string, body []byte) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Grpc-Metadata-hasleader", "true") // a member without a leader ends its streams
	if token != "" {
		request.Header.Set("Authorization", token)
	}
	response, err := e.client.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		defer response.Body.Close()
		return nil, readRefusal(response)
	}
	return response, nil
}

func readRefusal(response *http.Response) error {
	text, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	if err != nil {
		return err
	}
	var reply struct {
		Error   string `json:"error"`
		Message string `json:"message"`
		Code    int    `json:"code"`
	}
	r := &refusal{status: response.StatusCode}
	if json.Unmarshal(text, &reply) == nil && (reply.Error != "" || reply.Message != "") {
		r.code, r.text = reply.Code, reply.Error
		if r.text == "" {
			r.text = reply.Message
		}
	} else {
		r.text = fmt.Sprintf("%s: %.200q", response.Status, text)
	}
	return r
}

// decode reads the single reply of a response. It reads to the end, so that the connection can be reused.
func decode(response *http.Response, out any) error {
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxReply+1))
	if err != nil {
		return err
	}
	if len(text) > maxReply {
		return fmt.Errorf("a reply of more than %d bytes", maxReply)
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("a reply that is not etcd's: %w", err)
	}
	return nil
}

// These are the messages of the gateway, with the fields that are used. It writes 64-bit numbers as strings, and bytes
// in base 64.
type (
	header struct {
		Revision int64 `json:"revision,string"`
	}
	keyValue struct {
		Key      []byte `json:"key"`
		Value    []byte `json:"value"`
		Revision int64  `json:"mod_revision,string"`
		Lease    int64  `json:"lease,string"`
	}
	rangeRequest struct {
		Key []byte `json:"key"`
		End []byte `json:"range_end,omitempty"`
	}
	rangeReply struct {
		Header header     `json:"header"`
		KVs    []keyValue `json:"kvs"`
	}
	compare struct {
		Key      []byte `json:"key"`
		Target   string `json:"target"`
		Result   string `json:"result"`
		Revision int64  `json:"mod_revision,string"`
	}
	putRequest struct {
		Key   []byte `json:"key"`
		Value []byte `json:"value"`
		Lease int64  `json:"lease,string,omitempty"`
	}
	operation struct {
		Put    *putRequest   `json:"request_put,omitempty"`
		Delete *rangeRequest `json:"request_delete_range,omitempty"`
	}
	txnRequest struct {
		Compare []compare   `json:"compare"`
		Success []operation `json:"success"`
	}
	txnReply struct {
		Header    header `json:"header"`
		Succeeded bool   `json:"succeeded"`
	}
	lease struct {
		ID  int64 `json:"ID,string"`
		TTL int64 `json:"TTL,string,omitempty"`
	}
	keepAliveReply struct {
		Result lease      `json:"result"`
		Error  *watchFail `json:"error"`
	}
	watchRequest struct {
		Create struct {
			Key   []byte `json:"key"`
			End   []byte `json:"range_end"`
			Start int64  `json:"start_revision,string"`
		} `json:"create_request"`
	}
	watchFail struct {
		Code    int    `json:"grpc_code"`
		Message string `json:"message"`
	}
	watchReply struct {
		Result struct {
			Header   header `json:"header"`
			Canceled bool   `json:"canceled"`
			Compact  int64  `json:"compact_revision,string"`
			Reason   string `json:"cancel_reason"`
			Events   []struct {
				Type string   `json:"type"`
				KV   keyValue `json:"kv"`
			} `json:"events"`
		} `json:"result"`
		Error *watchFail `json:"error"`
	}
)

func (kv *keyValue) entry() Entry {
	e := Entry{Key: string(kv.Key), Value: kv.Value, Revision: kv.Revision, Lease: Lease(kv.Lease)}
	if e.Value == nil {
		e.Value = []byte{}
	}
	return e
}

// end returns the end of the range of all keys that begin with prefix.
func end(prefix string) []byte {
	p := []byte(prefix)
	for i := len(p) - 1; i >= 0; i-- {
		if p[i] < 0xff {
			p[i]++
			return p[:i+1]
		}
	}
	return []byte{0} // all keys
}

// Get returns an entry.
func (e *Etcd) Get(ctx context.Context, key string) (Entry, error) {
	var reply rangeReply
	if err := e.call(ctx, "/v3/kv/range", rangeRequest{Key: []byte(key)}, &reply, false); err != nil {
		return Entry{}, err
	}
	if len(reply.KVs) == 0 {
		return Entry{}, ErrNotFound
	}
	return reply.KVs[0].entry(), nil
}

// List returns the entries whose keys begin with prefix.
func (e *Etcd) List(ctx context.Context, prefix string) ([]Entry, int64, error) {
	var reply rangeReply
	err := e.call(ctx, "/v3/kv/range", rangeRequest{Key: []byte(prefix), End: end(prefix)}, &reply, false)
	entries := make([]Entry, len(reply.KVs))
	for i := range reply.KVs {
		entries[i] = reply.KVs[i].entry()
	}
	return entries, reply.Header.Revision, err
}

// Commit writes in one transaction if all conditions hold.
func (e *Etcd) Commit(ctx context.Context, conditions []Condition, writes []Write) (int64, error) {
	if err := checkWrites(writes); err != nil {
		return 0, err
	}
	request := txnRequest{Compare: []compare{}, Success: []operation{}}
	for _, c := range conditions {
		request.Compare = append(request.Compare,
			compare{Key: []byte(c.Key), Target: "MOD", Result: "EQUAL", Revision: c.Revision})
	}
	for _, w := range writes {
		op := operation{}
		switch {
		case w.Delete && w.Prefix:
			op.Delete = &rangeRequest{Key: []byte(w.Key), End: end(w.Key)}
		case w.Delete:
			op.Delete = &rangeRequest{Key: []byte(w.Key)}
		default:
			op.Put = &putRequest{Key: []byte(w.Key), Value: w.Value, Lease: int64(w.Lease)}
		}
		request.Success = append(request.Success, op)
	}
	var reply txnReply
	if err := e.call(ctx, "/v3/kv/txn", request, &reply, true); err != nil {
		return 0, lapsed(err)
	}
	if !reply.Succeeded {
		return 0, ErrConflict
	}
	return reply.Header.Revision, nil
}

// lapsed returns ErrLapsed if err is etcd's error for an unknown lease.
func lapsed(err error) error {
	if r := (*refusal)(nil); errors.As(err, &r) && strings.Contains(r.text, "requested lease not found") {
		return ErrLapsed
	}
	return err
}

// Grant makes a lease with a time in whole seconds.
func (e *Etcd) Grant(ctx context.Context, ttl time.Duration) (Lease, error) {
	var reply lease
	seconds := int64((ttl + time.Second - 1) / time.Second)
	// An unused lease ends by itself, so a second try does no harm.
	err := e.call(ctx, "/v3/lease/grant", lease{TTL: max(1, seconds)}, &reply, false)
	if err == nil && reply.ID == 0 {
		err = errors.New("etcd has granted no lease")
	}
	return Lease(reply.ID), err
}

// KeepAlive restarts the lease's time.
func (e *Etcd) KeepAlive(ctx context.Context, l Lease) error {
	var reply keepAliveReply
	if err := e.call(ctx, "/v3/lease/keepalive", lease{ID: int64(l)}, &reply, false); err != nil {
		return lapsed(err)
	}
	if reply.Error != nil {
		return lapsed(&refusal{code: reply.Error.Code, text: reply.Error.Message})
	}
	if reply.Result.TTL <= 0 {
		return ErrLapsed
	}
	return nil
}

// Revoke ends the lease and deletes its entries. If the lease is already over, Revoke returns nil.
func (e *Etcd) Revoke(ctx context.Context, l Lease) error {
	var reply struct{}
	err := lapsed(e.call(ctx, "/v3/lease/revoke", lease{ID: int64(l)}, &reply, false))
	if errors.Is(err, ErrLapsed) {
		return nil
	}
	return err
}

// Watch returns a channel of the changes.
func (e *Etcd) Watch(ctx context.Context, prefix string, from int64) <-chan Change {
	return watch(ctx, e, prefix, from)
}

// stream reads one watch to its end, at the member that answered last. After a failure, the next call begins with the
// next member.
func (e *Etcd) stream(ctx context.Context, prefix string, from int64, heard func(), told func([]Entry, int64)) error {
	at := e.first.Load()
	err := e.follow(ctx, e.endpoints[at], prefix, from, heard, told)
	if err != nil && !errors.Is(err, errCompacted) && ctx.Err() == nil {
		e.first.CompareAndSwap(at, (at+1)%int64(len(e.endpoints)))
		if r := (*refusal)(nil); errors.As(err, &r) && r.expiredToken() {
			e.token.Lock()
			e.token.text = ""
			e.token.Unlock()
		}
	}
	return err
}

func (e *Etcd) follow(ctx context.Context, endpoint, prefix string, from int64, heard func(),
	told func([]Entry, int64)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	soon := time.AfterFunc(e.o.Timeout, cancel) // until the member has confirmed the watch
	defer soon.Stop()
	token, err := e.authenticate(ctx, endpoint, false)
	if err != nil {
		return err
	}
	var request watchRequest
	request.Create.Key, request.Create.End, request.Create.Start = []byte(prefix), end(prefix), from
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	response, err := e.post(ctx, endpoint, "/v3/watch", token, body)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	limited := &meter{from: response.Body}
	for replies := json.NewDecoder(limited); ; {
		limited.left = maxReply
		var reply watchReply
		if err := replies.Decode(&reply); err != nil {
			return err
		}
		first := soon.Stop()
		heard()
		r := &reply.Result
		switch {
		case first && r.Header.Revision > 0 && r.Header.Revision < from-1:
			return errCompacted // a restored store would be silent until it has that many new changes
		case reply.Error != nil:
			return &refusal{code: reply.Error.Code, text: reply.Error.Message}
		case r.Compact > 0:
			return errCompacted
		case r.Canceled:
			return &refusal{code: codeUnknown, text: "etcd has ended the watch: " + r.Reason}
		case len(r.Events) == 0:
			continue
		}
		entries := make([]Entry, len(r.Events))
		for i, event := range r.Events {
			entries[i] = event.KV.entry()
			if event.Type == "DELETE" {
				entries[i].Value = nil
			}
		}
		told(entries, entries[len(entries)-1].Revision)
	}
}

// A meter limits the size of one message of a stream.
type meter struct {
	from io.Reader
	left int
}

func (m *meter) Read(p []byte) (int, error) {
	if m.left <= 0 {
		return 0, fmt.Errorf("a message of more than %d bytes", maxReply)
	}
	n, err := m.from.Read(p[:min(len(p), m.left)])
	m.left -= n
	return n, err
}
