package dashboard

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"spindle/proxy/store"
)

// A newToken is the body of the request that creates a token.
type newToken struct {
	Name string `json:"name"`
	Role string `json:"role"` // "read" or "write"
}

// A tokenView is a token. Only the reply to its creation shows the secret.
type tokenView struct {
	Name    string    `json:"name"`
	Role    string    `json:"role"`
	Created time.Time `json:"created"`
	Secret  string    `json:"secret,omitempty"`
}

func (d *Dashboard) listTokens(c *call) (any, error) {
	entries, _, err := d.store.List(c.ctx, d.key("tokens", ""))
	if err != nil {
		return nil, err
	}
	list := []tokenView{}
	for _, e := range entries {
		var t store.Token
		if err := store.Decode(e, &t); err != nil {
			d.log.Warning("%s", err)
			continue
		}
		list = append(list, tokenView{Name: t.Name, Role: t.Role, Created: t.Created})
	}
	return struct {
		Tokens []tokenView `json:"tokens"`
	}{list}, nil
}

func (d *Dashboard) createToken(c *call) (any, error) {
	o := c.body.(*newToken)
	c.detail = o.Name + " " + o.Role
	if o.Name == readToken || o.Name == writeToken || o.Name == noToken {
		return nil, failed(http.StatusConflict, "exists", "the name %s has a meaning already", o.Name)
	}
	random := make([]byte, 32)
	_, _ = rand.Read(random) // it never fails
	secret := hex.EncodeToString(random)
	sum := sha256.Sum256([]byte(secret))
	t := &store.Token{Name: o.Name, Role: o.Role, Hash: hex.EncodeToString(sum[:]), Created: now()}
	value, err := store.Encode(t)
	if err != nil {
		return nil, failed(http.StatusBadRequest, "bad_request", "%s", err)
	}
	key := d.key("tokens", t.Name)
	_, err = d.commit(c.ctx, []store.Condition{{Key: key}}, []store.Write{{Key: key, Value: value}})
	if errors.Is(err, store.ErrConflict) {
		err = failed(http.StatusConflict, "exists", "token %s exists already", t.Name)
	}
	if err != nil {
		return nil, err
	}
	return tokenView{t.Name, t.Role, t.Created, secret}, nil
}

func (d *Dashboard) deleteToken(c *call) (any, error) {
	c.detail = c.part("token")
	key := d.key("tokens", c.detail)
	if store.CheckName("token", c.detail) != nil {
		return nil, errNoToken
	}
	e, err := d.store.Get(c.ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return nil, errNoToken
	}
	if err != nil {
		return nil, err
	}
	_, err = d.commit(c.ctx, []store.Condition{{Key: key, Revision: e.Revision}}, []store.Write{{Key: key, Delete: true}})
	return done{true}, err
}

var errNoToken = &failure{http.StatusNotFound, "no_token", "there is no such token"}

// commit writes entries that belong to no product, if this dashboard leads (dashboard.L1).
func (d *Dashboard) commit(ctx context.Context, conditions []store.Condition, writes []store.Write) (int64, error) {
	held, _, _ := d.lead.now()
	if held == nil {
		return 0, store.ErrLost
	}
	return d.store.Commit(ctx, append(conditions, held.Condition), writes)
}

// auditKept is the number of entries that the audit log keeps. The log may be auditSlack entries longer.
const (
	auditKept  = 1000
	auditSlack = 100
)

// audit records an action and its outcome. If the store does not take the entry, a warning goes to the dashboard's log.
func (d *Dashboard) audit(c *call, action string, err error) {
	d.note(store.Audit{Actor: c.who.name, From: c.r.RemoteAddr, Action: action, Product: describe(c.product),
		Detail: describe(strings.TrimSpace(c.part("group") + " " + c.detail))}, err)
}

// note writes an entry of the audit log. err is the action's outcome.
func (d *Dashboard) note(a store.Audit, err error) {
	a.Time, a.Outcome = now(), "ok"
	if err != nil {
		a.Outcome = describe(err.Error())
	}
	d.log.Notice("Audit: %s %s %s by %s from %s: %s", a.Action, describe(a.Product), a.Detail, a.Actor, a.From, a.Outcome)
	value, failed := store.Encode(&a)
	if failed == nil {
		// The client may have disconnected, but its action has happened.
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		count := d.audits.Add(1)
		key := d.key("audit", fmt.Sprintf("%020d-%04x", time.Now().UnixNano(), count&0xffff))
		_, failed = d.store.Commit(ctx, []store.Condition{{Key: key}}, []store.Write{{Key: key, Value: value}})
		if failed == nil && count%auditSlack == 1 { // also at the first one: many dashboards write fewer
			failed = d.trimAudit(ctx)
		}
	}
	if failed != nil {
		d.log.Warning("The audit log in the store lacks this: %s", failed)
	}
}

// trimAudit deletes the oldest entries of the audit log.
func (d *Dashboard) trimAudit(ctx context.Context) error {
	entries, _, err := d.store.List(ctx, d.key("audit", ""))
	if err != nil || len(entries) <= auditKept {
		return err
	}
	for old := range slices.Chunk(entries[:len(entries)-auditKept], 64) {
		var writes []store.Write
		for _, e := range old {
			writes = append(writes, store.Write{Key: e.Key, Delete: true})
		}
		if _, err := d.commit(ctx, nil, writes); err != nil {
			return err
		}
	}
	return nil
}

func (d *Dashboard) listAudit(c *call) (any, error) {
	limit := 100
	if text := c.r.URL.Query().Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > auditKept {
			return nil, failed(http.StatusBadRequest, "bad_request", "limit is 1 to %d", auditKept)
		}
		limit = n
	}
	product := c.r.URL.Query().Get("product")
	entries, _, err := d.store.List(c.ctx, d.key("audit", ""))
	if err != nil {
		return nil, err
	}
	list := []store.Audit{}
	for _, e := range slices.Backward(entries) {
		var a store.Audit
		if store.Decode(e, &a) == nil && (product == "" || a.Product == product) && len(list) < limit {
			list = append(list, a)
		}
	}
	return struct {
		Audit []store.Audit `json:"audit"` // the newest first
	}{list}, nil
}
