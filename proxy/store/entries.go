package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// The tree has these entries. Each is the JSON of the type named here. PREFIX is /spindle by default (store-prefix).
//
//	PREFIX/PRODUCT/product         Product
//	PREFIX/PRODUCT/groups/GROUP    Group, for a product over groups
//	PREFIX/PRODUCT/slots           Slots, for a product over groups
//	PREFIX/PRODUCT/sentinels       Sentinels
//	PREFIX/PRODUCT/proxies/ID      Proxy: it stays when the proxy is gone, until it or an operator removes it
//	PREFIX/PRODUCT/present/ID      Presence, under a lease: the proxy reaches the store
//	PREFIX/PRODUCT/move            Move: the plan that is carried out, and whether
//	PREFIX/PRODUCT/progress        Progress of the move, for display
//	PREFIX/_dashboard/leader       Leader, under a lease
//	PREFIX/_dashboard/tokens/NAME  Token
//	PREFIX/_dashboard/audit/TIME   Audit
//
// store.T1. An entry is a JSON object. Its schema names its type and the version of that type.
// store.T2. A reader refuses an entry of another schema or with invalid content. The error names the key and the
// reason.
// store.T3. A writer writes only entries that its own reader accepts.

// These are the schemas of the types. A change that older programs would misread gets a new number.
const (
	SchemaProduct   = "spindle.product/1"
	SchemaGroup     = "spindle.group/1"
	SchemaSlots     = "spindle.slots/1"
	SchemaSentinels = "spindle.sentinels/1"
	SchemaProxy     = "spindle.proxy/1"
	SchemaPresence  = "spindle.presence/1"
	SchemaMove      = "spindle.move/1"
	SchemaProgress  = "spindle.progress/1"
	SchemaLeader    = "spindle.leader/1"
	SchemaToken     = "spindle.token/1"
	SchemaAudit     = "spindle.audit/1"
)

// A product has one of these kinds.
const (
	KindGroups  = "groups"  // plain servers in groups; the table of slots is in the store
	KindCluster = "cluster" // a Redis Cluster, which has its own table
)

// These rules compute the slot of a key.
const (
	HashCRC16 = "crc16" // Redis Cluster's rule, 16,384 slots
	HashCRC32 = "crc32" // Codis's rule, 1,024 slots
)

// A slot has these states on its way from one group to another. Every proxy must have seen prepare before a slot
// migrates.
//
//	online     the group serves the slot
//	prepare    as online, but proxies hold requests for the slot back, finish those under way, and confirm
//	migrating  the target serves the slot; a key that is asked for moves there first
//	online     the target is the group
const (
	Online    = "online" // written as ""
	Prepare   = "prepare"
	Migrating = "migrating"
)

// A Product is one data set, served by any number of proxies.
type Product struct {
	Schema  string    `json:"schema"`
	Name    string    `json:"name"`
	Kind    string    `json:"kind"`
	Hash    string    `json:"hash"`
	Slots   int       `json:"slots"`
	Seeds   []string  `json:"seeds,omitempty"` // of a cluster: addresses of nodes
	Label   string    `json:"label,omitempty"` // any text for people
	Created time.Time `json:"created"`
}

// A Group is a primary with its replicas.
type Group struct {
	Schema   string   `json:"schema"`
	ID       string   `json:"id"`
	Label    string   `json:"label,omitempty"`
	Primary  string   `json:"primary"`
	Servers  []Server `json:"servers"` // with the primary
	Master   string   `json:"master,omitempty"`
	Draining bool     `json:"draining,omitempty"` // no plan gives it slots
}

// A Server is one address of a group.
type Server struct {
	Address string `json:"address"` // host:port
	Zone    string `json:"zone,omitempty"`
}

// Sentinels names the Sentinels that watch the product's groups. They know a group by Group.Master.
type Sentinels struct {
	Schema    string   `json:"schema"`
	Addresses []string `json:"addresses"`
	Quorum    int      `json:"quorum"`
}

// Slots is the table of slots: which group has which slots. Slots in no range belong to no group.
type Slots struct {
	Schema string  `json:"schema"`
	Slots  int     `json:"slots"`
	Ranges []Range `json:"ranges"` // ascending, without overlap
}

// A Range is the slots From to To, which have the same group and state.
type Range struct {
	From   int    `json:"from"`
	To     int    `json:"to"`
	Group  string `json:"group"`
	State  string `json:"state,omitempty"`
	Target string `json:"target,omitempty"` // of prepare and migrating
}

// A Proxy is a registered proxy. A slot moves to another group only after each registered proxy has confirmed the
// table.
type Proxy struct {
	Schema    string    `json:"schema"`
	ID        string    `json:"id"`
	Instance  string    `json:"instance"` // differs for each process
	Address   string    `json:"address"`  // for clients
	Admin     string    `json:"admin,omitempty"`
	Host      string    `json:"host,omitempty"`
	PID       int       `json:"pid,omitempty"`
	Version   string    `json:"version,omitempty"`
	Zone      string    `json:"zone,omitempty"`
	Started   time.Time `json:"started"`
	Confirmed int64     `json:"confirmed"` // the revision of the table on which the proxy acts; 0 means none yet
}

// RegistrationOf decodes a proxy's registration.
//
// A registration is newer than the table that it confirms. If it is not, the store was restored from a backup after
// the confirmation, and the revision is of another table. Then nothing is confirmed.
func RegistrationOf(e Entry) (p Proxy, err error) {
	err = Decode(e, &p)
	if p.Confirmed >= e.Revision {
		p.Confirmed = 0
	}
	return p, err
}

// A Presence shows that a proxy reaches the store.
type Presence struct {
	Schema   string `json:"schema"`
	ID       string `json:"id"`
	Instance string `json:"instance"`
}

// States of a Move.
const (
	MoveRunning   = "running"
	MovePaused    = "paused"
	MoveCancelled = "cancelled" // slots that are under way are completed
	MoveDone      = "done"
)

// A Move is a plan that is carried out. The table shows which steps are done, so a move needs no position.
type Move struct {
	Schema string `json:"schema"`
	ID     string `json:"id"`
	State  string `json:"state"`
	Steps  []Step `json:"steps"`
	// Members has the node IDs of each shard that the steps name, for a cluster. After a failover another of these
	// nodes is the primary.
	Members map[string][]string `json:"members,omitempty"`
	Pace    int                 `json:"pace"` // the maximum of keys a second; 0 means no limit
	By      string              `json:"by"`
	Created time.Time           `json:"created"`
	Ended   time.Time           `json:"ended,omitzero"`
}

// A Step moves the slots From to To from one group or shard to another. A shard is named by its primary's node ID.
type Step struct {
	From   int    `json:"from"`
	To     int    `json:"to"`
	Source string `json:"source"`
	Target string `json:"target"`
}

// A Progress tells how far a move is.
type Progress struct {
	Schema  string    `json:"schema"`
	Move    string    `json:"move"` // the move's ID
	Slots   int       `json:"slots"`
	Done    int       `json:"done"` // slots
	Slot    int       `json:"slot"` // the slot under way, or -1
	Keys    int64     `json:"keys"`
	Bytes   int64     `json:"bytes"`
	Waiting []string  `json:"waiting,omitempty"` // proxies that have not confirmed
	Problem string    `json:"problem,omitempty"` // why the move waits or fails
	Updated time.Time `json:"updated"`
}

// A Leader is the active dashboard.
type Leader struct {
	Schema string    `json:"schema"`
	ID     string    `json:"id"`
	URL    string    `json:"url"` // the URL of the dashboard
	Since  time.Time `json:"since"`
}

// A token has one of these roles.
const (
	RoleRead  = "read"
	RoleWrite = "write"
)

// A Token lets its holder use the dashboard. The store has only its hash.
type Token struct {
	Schema  string    `json:"schema"`
	Name    string    `json:"name"`
	Role    string    `json:"role"`
	Hash    string    `json:"hash"` // SHA-256 in hex
	Created time.Time `json:"created"`
}

// An Audit is one action on the dashboard.
type Audit struct {
	Schema  string    `json:"schema"`
	Time    time.Time `json:"time"`
	Actor   string    `json:"actor"` // the token's name
	From    string    `json:"from"`  // the client's address
	Action  string    `json:"action"`
	Product string    `json:"product,omitempty"`
	Detail  string    `json:"detail,omitempty"`
	Outcome string    `json:"outcome"` // "ok", or the error
}

// These limits bound the fields of entries.
const (
	MaxLabel    = 128 // runes
	MaxServers  = 64  // of a group
	maxSteps    = 16384
	maxMembers  = 1024 // of a shard
	maxText     = 4096
	maxAddress  = 262
	maxIDLength = 64
)

// Dashboard takes the place of a product's name in the keys of entries that belong to no product.
const Dashboard = "_dashboard"

// KeyOf returns the key of an entry of a product.
func KeyOf(prefix, product string, parts ...string) string {
	return prefix + "/" + product + "/" + strings.Join(parts, "/")
}

// An EntryError says why a reader has refused an entry (store.T2).
type EntryError struct {
	Key    string
	Reason string
}

func (e *EntryError) Error() string { return fmt.Sprintf("entry %s is refused: %s", e.Key, e.Reason) }

// A Checked is a type of entry that can be validated.
type Checked interface {
	check() error
	schema() (got *string, want string)
}

// Decode reads an entry's value into v and validates it. Errors: an *EntryError.
func Decode(e Entry, v Checked) error {
	if len(e.Value) > maxValue {
		return &EntryError{e.Key, fmt.Sprintf("it has %d bytes, and at most %d are allowed", len(e.Value), maxValue)}
	}
	var head struct {
		Schema *string `json:"schema"`
	}
	_, want := v.schema()
	if err := json.Unmarshal(e.Value, &head); err != nil {
		return &EntryError{e.Key, "it is no JSON object: " + err.Error()}
	}
	if head.Schema == nil || *head.Schema != want {
		got := "no schema"
		if head.Schema != nil {
			got = fmt.Sprintf("schema %.60q", *head.Schema)
		}
		return &EntryError{e.Key, fmt.Sprintf("it has %s, and this version reads %q", got, want)}
	}
	text := json.NewDecoder(bytes.NewReader(e.Value))
	text.DisallowUnknownFields()
	if err := text.Decode(v); err != nil {
		return &EntryError{e.Key, err.Error()}
	}
	if _, err := text.Token(); !errors.Is(err, io.EOF) {
		return &EntryError{e.Key, "there is text after the object"}
	}
	if err := v.check(); err != nil {
		return &EntryError{e.Key, err.Error()}
	}
	return nil
}

// Encode validates v and returns its value (store.T3). It sets the schema.
func Encode(v Checked) ([]byte, error) {
	schema, want := v.schema()
	*schema = want
	if err := v.check(); err != nil {
		return nil, err
	}
	text, err := json.Marshal(v)
	if err == nil && len(text) > maxValue {
		err = fmt.Errorf("the entry has %d bytes, and at most %d are allowed", len(text), maxValue)
	}
	return text, err
}

func (p *Product) schema() (*string, string)   { return &p.Schema, SchemaProduct }
func (g *Group) schema() (*string, string)     { return &g.Schema, SchemaGroup }
func (s *Sentinels) schema() (*string, string) { return &s.Schema, SchemaSentinels }
func (s *Slots) schema() (*string, string)     { return &s.Schema, SchemaSlots }
func (p *Proxy) schema() (*string, string)     { return &p.Schema, SchemaProxy }
func (p *Presence) schema() (*string, string)  { return &p.Schema, SchemaPresence }
func (m *Move) schema() (*string, string)      { return &m.Schema, SchemaMove }
func (p *Progress) schema() (*string, string)  { return &p.Schema, SchemaProgress }
func (l *Leader) schema() (*string, string)    { return &l.Schema, SchemaLeader }
func (t *Token) schema() (*string, string)     { return &t.Schema, SchemaToken }
func (a *Audit) schema() (*string, string)     { return &a.Schema, SchemaAudit }

func (p *Product) check() error {
	if err := CheckName("product", p.Name); err != nil {
		return err
	}
	if err := checkLabel(p.Label); err != nil {
		return err
	}
	switch {
	case p.Kind != KindGroups && p.Kind != KindCluster:
		return fmt.Errorf("kind %.40q is neither groups nor cluster", p.Kind)
	case p.Hash == HashCRC16 && p.Slots == 16384:
	case p.Hash == HashCRC32 && p.Slots == 1024 && p.Kind == KindGroups:
	default:
		return fmt.Errorf("%d slots by %.40q are no layout: 16384 by crc16, or for groups 1024 by crc32", p.Slots, p.Hash)
	}
	if p.Kind == KindCluster && len(p.Seeds) == 0 {
		return errors.New("a cluster needs seeds, the addresses of nodes")
	}
	if p.Kind == KindGroups && len(p.Seeds) > 0 {
		return errors.New("only a cluster has seeds")
	}
	return checkAddresses(p.Seeds)
}

func (g *Group) check() error {
	if err := CheckName("group", g.ID); err != nil {
		return err
	}
	if err := checkLabel(g.Label); err != nil {
		return err
	}
	if g.Master != "" {
		if err := CheckName("master", g.Master); err != nil {
			return err
		}
	}
	if len(g.Servers) > MaxServers {
		return fmt.Errorf("a group of %d servers: at most %d are allowed", len(g.Servers), MaxServers)
	}
	addresses := make([]string, len(g.Servers))
	for i, s := range g.Servers {
		if err := checkLabel(s.Zone); err != nil {
			return err
		}
		addresses[i] = s.Address
	}
	if err := checkAddresses(addresses); err != nil {
		return err
	}
	if !slices.Contains(addresses, g.Primary) {
		return fmt.Errorf("the primary %.80q is none of the group's servers", g.Primary)
	}
	return nil
}

func (s *Sentinels) check() error {
	if s.Quorum < 1 || s.Quorum > len(s.Addresses) {
		return fmt.Errorf("a quorum of %d with %d Sentinels", s.Quorum, len(s.Addresses))
	}
	return checkAddresses(s.Addresses)
}

func (s *Slots) check() error {
	if s.Slots != 16384 && s.Slots != 1024 {
		return fmt.Errorf("%d slots: 16384 or 1024", s.Slots)
	}
	next := 0
	for _, r := range s.Ranges {
		if r.From < next || r.To < r.From || r.To >= s.Slots {
			return fmt.Errorf("range %d to %d is out of order or out of bounds", r.From, r.To)
		}
		next = r.To + 1
		if err := CheckName("group", r.Group); err != nil {
			return err
		}
		switch r.State {
		case "":
			if r.Target != "" {
				return fmt.Errorf("range %d to %d is online and has a target", r.From, r.To)
			}
		case Prepare, Migrating:
			if err := CheckName("target", r.Target); err != nil {
				return err
			}
			if r.Target == r.Group {
				return fmt.Errorf("range %d to %d moves to its own group", r.From, r.To)
			}
		default:
			return fmt.Errorf("range %d to %d has state %.40q", r.From, r.To, r.State)
		}
	}
	return nil
}

func (p *Proxy) check() error {
	if err := checkID("proxy", p.ID); err != nil {
		return err
	}
	if err := checkID("instance", p.Instance); err != nil {
		return err
	}
	if p.Confirmed < 0 {
		return fmt.Errorf("revision %d is confirmed", p.Confirmed)
	}
	if err := checkTexts(p.Address, p.Admin, p.Host, p.Version, p.Zone); err != nil {
		return err
	}
	return nil
}

func (p *Presence) check() error {
	if err := checkID("proxy", p.ID); err != nil {
		return err
	}
	return checkID("instance", p.Instance)
}

func (m *Move) check() error {
	if err := checkID("move", m.ID); err != nil {
		return err
	}
	if !slices.Contains([]string{MoveRunning, MovePaused, MoveCancelled, MoveDone}, m.State) {
		return fmt.Errorf("a move in state %.40q", m.State)
	}
	if len(m.Steps) > maxSteps || m.Pace < 0 {
		return fmt.Errorf("a move of %d steps at pace %d", len(m.Steps), m.Pace)
	}
	for _, members := range m.Members {
		if len(members) > maxMembers {
			return fmt.Errorf("a shard of %d nodes", len(members))
		}
	}
	var moved [16384]bool
	for _, s := range m.Steps {
		if s.From < 0 || s.To < s.From || s.To >= 16384 {
			return fmt.Errorf("a step of slots %d to %d", s.From, s.To)
		}
		for slot := s.From; slot <= s.To; slot++ {
			if moved[slot] {
				return fmt.Errorf("slot %d moves twice", slot)
			}
			moved[slot] = true
		}
		if err := CheckName("source", s.Source); err != nil {
			return err
		}
		if err := CheckName("target", s.Target); err != nil {
			return err
		}
		if s.Source == s.Target {
			return fmt.Errorf("slots %d to %d move to their own group", s.From, s.To)
		}
	}
	return checkTexts(m.By)
}

func (p *Progress) check() error {
	if err := checkID("move", p.Move); err != nil {
		return err
	}
	if p.Slots < 0 || p.Done < 0 || p.Done > p.Slots || p.Slot < -1 || p.Keys < 0 || p.Bytes < 0 {
		return errors.New("impossible figures")
	}
	return checkTexts(append(slices.Clone(p.Waiting), p.Problem)...)
}

func (l *Leader) check() error {
	if err := checkID("dashboard", l.ID); err != nil {
		return err
	}
	return checkTexts(l.URL)
}

func (t *Token) check() error {
	if err := CheckName("token", t.Name); err != nil {
		return err
	}
	if t.Role != RoleRead && t.Role != RoleWrite {
		return fmt.Errorf("role %.40q is neither read nor write", t.Role)
	}
	if len(t.Hash) != 64 || strings.Trim(t.Hash, "0123456789abcdef") != "" {
		return errors.New("the hash is no SHA-256")
	}
	return nil
}

func (a *Audit) check() error {
	return checkTexts(a.Actor, a.From, a.Action, a.Product, a.Detail, a.Outcome)
}

// CheckName refuses a name that cannot be part of a key. A name has up to 64 letters, digits, and, after the first
// character, the characters . _ and -.
func CheckName(what, name string) error {
	if name == "" || len(name) > maxIDLength {
		return fmt.Errorf("a %s's name has 1 to %d characters", what, maxIDLength)
	}
	for i, c := range []byte(name) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && (i == 0 || c != '.' && c != '_' && c != '-') {
			return fmt.Errorf("%s %.80q: a name has letters, digits, and . _ - after the first", what, name)
		}
	}
	return nil
}

// checkID is CheckName for IDs that may also be addresses.
func checkID(what, id string) error {
	if id == "" || len(id) > 2*maxIDLength {
		return fmt.Errorf("the ID of a %s has 1 to %d characters", what, 2*maxIDLength)
	}
	for _, c := range []byte(id) {
		if c <= ' ' || c >= 0x7f || c == '/' {
			return fmt.Errorf("%s %.80q: an ID has letters, digits and marks other than /", what, id)
		}
	}
	return nil
}

// checkLabel refuses a label that is too long or not plain text. A label may contain markup, so it must be escaped when
// it is shown.
func checkLabel(text string) error {
	if !utf8.ValidString(text) || utf8.RuneCountInString(text) > MaxLabel ||
		strings.ContainsFunc(text, unicode.IsControl) {
		return fmt.Errorf("a label has at most %d printable characters", MaxLabel)
	}
	return nil
}

func checkTexts(texts ...string) error {
	for _, text := range texts {
		if len(text) > maxText {
			return fmt.Errorf("a text of %d bytes: at most %d are allowed", len(text), maxText)
		}
	}
	return nil
}

// CheckAddress refuses a text that is not host:port.
func CheckAddress(address string) error {
	host, port, err := net.SplitHostPort(address)
	n, failed := strconv.Atoi(port)
	if err != nil || failed != nil || host == "" || n < 1 || n > 65535 || len(address) > maxAddress ||
		strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`/<>"'@\`, r) }) {
		return fmt.Errorf("%.80q is no host:port", address)
	}
	return nil
}

func checkAddresses(addresses []string) error {
	if len(addresses) > 1024 {
		return fmt.Errorf("%d addresses: at most 1024 are allowed", len(addresses))
	}
	for i, a := range addresses {
		if err := CheckAddress(a); err != nil {
			return err
		}
		if slices.Contains(addresses[:i], a) {
			return fmt.Errorf("%s stands there twice", a)
		}
	}
	return nil
}

// nameIn returns the last part of a key.
func nameIn(key string) string { return path.Base(key) }
