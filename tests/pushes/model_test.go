package pushes

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A model is a server from the point of view of its clients, one command after another.
type model struct {
	dbs     [2]map[string]entry
	table   map[string]map[int64]bool // the clients that may have cached a key
	clients map[int64]*client
	changed map[string]*client // by key: the client that changed it last in this turn
	active  *client            // the client whose command runs
	behind  []string           // pushes to active, held until its reply is complete
}

// An entry is a string. After its deadline, it is deleted when a command accesses it.
type entry struct {
	text string
	past bool
}

// A client is the server's state of one client, and the replies and pushes that the client has yet to read.
type client struct {
	id       int64
	protocol int
	db       int
	tracks   bool
	mode     map[string]bool // bcast, optin, optout, noloop
	caching  bool
	redirect int64
	prefixes map[string]bool
	subs     [3]map[string]bool // channels, patterns, shard channels
	multi    bool
	queue    [][]string

	due []group
}

// A group is one reply, or pushes of one cause. These pushes may arrive in any order.
type group struct {
	isReply bool
	reply   string
	pushes  []string
	closed  bool // the turn is over: later pushes are a new group
}

const events = "__keyevent@*" // a pattern for PSUBSCRIBE

func newModel() *model {
	return &model{
		dbs: [2]map[string]entry{{}, {}}, table: map[string]map[int64]bool{}, clients: map[int64]*client{},
		changed: map[string]*client{},
	}
}

func (m *model) arrive(id int64) *client {
	c := &client{id: id}
	c.reset()
	m.clients[id] = c
	return c
}

func (c *client) reset() {
	*c = client{id: c.id, protocol: 2, mode: map[string]bool{}, prefixes: map[string]bool{}, due: c.due}
	for i := range c.subs {
		c.subs[i] = map[string]bool{}
	}
}

func (m *model) leave(c *client) {
	m.untrack(c)
	delete(m.clients, c.id)
}

// run runs one command of c, and queues everything that clients receive because of it.
func (m *model) run(c *client, words []string) {
	m.active = c
	reply := m.answer(c, words)
	m.active = nil
	c.due = append(c.due, group{isReply: true, reply: reply})
	if len(m.behind) > 0 {
		c.due = append(c.due, group{pushes: m.behind})
		m.behind = nil
	}
	if words[0] != "CLIENT" && !c.multi {
		c.caching = false
	}
}

// turn ends a batch, and queues the invalidations that it causes.
func (m *model) turn() {
	names := slices.Sorted(maps.Keys(m.changed))
	for _, c := range m.clients {
		for prefix := range c.prefixes {
			var keys []string
			for _, key := range names {
				if strings.HasPrefix(key, prefix) && !(c.mode["noloop"] && m.changed[key] == c) {
					keys = append(keys, key)
				}
			}
			if len(keys) > 0 {
				m.invalidate(c, keys)
			}
		}
	}
	clear(m.changed)
	for _, c := range m.clients {
		if n := len(c.due); n > 0 {
			c.due[n-1].closed = true
		}
	}
}

func (m *model) push(to *client, text string) {
	if to == m.active {
		m.behind = append(m.behind, text)
		return
	}
	if n := len(to.due); n > 0 && !to.due[n-1].isReply && !to.due[n-1].closed {
		to.due[n-1].pushes = append(to.due[n-1].pushes, text)
		return
	}
	to.due = append(to.due, group{pushes: []string{text}})
}

func (m *model) touch(key string, by *client) {
	for _, c := range m.clients {
		for prefix := range c.prefixes {
			if strings.HasPrefix(key, prefix) {
				m.changed[key] = by
			}
		}
	}
	ids := m.table[key]
	delete(m.table, key)
	for id := range ids {
		if c := m.clients[id]; c != nil && c.tracks && !c.mode["bcast"] && !(c.mode["noloop"] && c == by) {
			m.invalidate(c, []string{key})
		}
	}
}

// invalidate sends an invalidation of keys to c, or to its redirect target. If keys is nil, it is about all keys.
func (m *model) invalidate(c *client, keys []string) {
	to := c
	if c.redirect != 0 {
		if to = m.clients[c.redirect]; to == nil {
			if c.protocol == 3 {
				m.push(c, fmt.Sprintf(">2 tracking-redir-broken :%d", c.redirect))
			}
			return
		}
	}
	what := fmt.Sprintf("*%d %s", len(keys), strings.Join(keys, " "))
	switch {
	case to.protocol == 3 && keys == nil:
		m.push(to, ">2 invalidate _")
	case to.protocol == 3:
		m.push(to, ">2 invalidate "+what)
	case c.redirect != 0 && to.subscriptions() > 0 && keys == nil:
		m.push(to, "*3 message __redis__:invalidate")
	case c.redirect != 0 && to.subscriptions() > 0:
		m.push(to, "*3 message __redis__:invalidate "+what)
	}
}

func (c *client) subscriptions() int { return len(c.subs[0]) + len(c.subs[1]) + len(c.subs[2]) }

func (m *model) untrack(c *client) {
	c.tracks, c.redirect, c.caching = false, 0, false
	clear(c.mode)
	clear(c.prefixes)
	for _, other := range m.clients {
		if other.tracks {
			return
		}
	}
	clear(m.table)
}

// look returns the value of a key before a command uses it. If the key's deadline has passed, look deletes the key.
func (m *model) look(db int, key string) (text string, is bool) {
	e, is := m.dbs[db][key]
	if is && e.past {
		delete(m.dbs[db], key)
		m.publish(0, fmt.Sprintf("__keyevent@%d__:expired", db), key)
		m.touch(key, nil)
		return "", false
	}
	return e.text, is
}

// lapse makes a key's deadline pass.
func (m *model) lapse(db int, key string) {
	if e, is := m.dbs[db][key]; is {
		m.dbs[db][key] = entry{e.text, true}
	}
}

func (m *model) remember(c *client, key string) {
	if !c.tracks || c.mode["bcast"] || c.mode["optin"] && !c.caching || c.mode["optout"] && c.caching {
		return
	}
	if m.table[key] == nil {
		m.table[key] = map[int64]bool{}
	}
	m.table[key][c.id] = true
}

func (m *model) set(c *client, key, text string) {
	m.look(c.db, key)
	m.dbs[c.db][key] = entry{text: text}
	m.touch(key, c)
}

func (c *client) null() string {
	if c.protocol == 3 {
		return "_"
	}
	return ""
}

func (c *client) get(text string, is bool) string {
	if is {
		return text
	}
	return c.null()
}

// publish publishes a message on a channel. kind is 0, or 2 for a shard channel.
func (m *model) publish(kind int, channel, text string) (receivers int) {
	word := [3]string{"message", "pmessage", "smessage"}
	for _, c := range m.clients {
		sign := "*"
		if c.protocol == 3 {
			sign = ">"
		}
		if c.subs[kind][channel] {
			receivers++
			m.push(c, fmt.Sprintf("%s3 %s %s %s", sign, word[kind], channel, text))
		}
		for pattern := range c.subs[1] {
			if kind == 0 && strings.HasPrefix(channel, strings.TrimSuffix(pattern, "*")) {
				receivers++
				m.push(c, fmt.Sprintf("%s4 %s %s %s %s", sign, word[1], pattern, channel, text))
			}
		}
	}
	return receivers
}

// answer returns the reply to a command, without the lengths of strings.
func (m *model) answer(c *client, words []string) string {
	name := words[0]
	if c.multi && name != "EXEC" && name != "DISCARD" && name != "RESET" {
		c.queue = append(c.queue, words)
		return "+QUEUED"
	}
	switch name {
	case "PING":
		if c.protocol == 2 && c.subscriptions() > 0 {
			return "*2 pong " + words[1]
		}
		return words[1]
	case "GET":
		reply := c.get(m.look(c.db, words[1]))
		m.remember(c, words[1])
		return reply
	case "MGET":
		reply := fmt.Sprintf("*%d", len(words)-1)
		for _, key := range words[1:] {
			reply = strings.TrimRight(reply+" "+c.get(m.look(c.db, key)), " ")
		}
		for _, key := range words[1:] {
			m.remember(c, key)
		}
		return reply
	case "SET":
		m.set(c, words[1], words[2])
		return "+OK"
	case "MSET":
		for i := 1; i < len(words); i += 2 {
			m.set(c, words[i], words[i+1])
		}
		return "+OK"
	case "DEL":
		if _, is := m.look(c.db, words[1]); !is {
			return ":0"
		}
		delete(m.dbs[c.db], words[1])
		m.touch(words[1], c)
		return ":1"
	case "EVAL": // reads its first key and sets its second key
		m.look(c.db, words[3])
		m.remember(c, words[3])
		m.set(c, words[4], words[5])
		return c.null()
	case "SELECT":
		c.db = int(words[1][0] - '0')
		return "+OK"
	case "FLUSHDB", "FLUSHALL", "SWAPDB":
		for _, other := range m.clients {
			if other.tracks {
				m.invalidate(other, nil)
			}
		}
		clear(m.table)
		switch name {
		case "FLUSHALL":
			clear(m.dbs[1-c.db])
			fallthrough
		case "FLUSHDB":
			clear(m.dbs[c.db])
		default:
			m.dbs[0], m.dbs[1] = m.dbs[1], m.dbs[0]
		}
		return "+OK"
	case "HELLO":
		c.protocol = int(words[1][0] - '0')
		if c.protocol == 3 {
			return "%7…"
		}
		return "*14…"
	case "RESET":
		m.untrack(c)
		c.reset()
		return "+RESET"
	case "MULTI":
		c.multi = true
		return "+OK"
	case "EXEC":
		c.multi = false
		queue := c.queue
		c.queue = nil
		reply := fmt.Sprintf("*%d", len(queue))
		for _, words := range queue {
			reply = strings.TrimRight(reply+" "+m.answer(c, words), " ")
		}
		return reply
	case "PUBLISH":
		return fmt.Sprintf(":%d", m.publish(0, words[1], words[2]))
	case "SPUBLISH":
		return fmt.Sprintf(":%d", m.publish(2, words[1], words[2]))
	case "SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE":
		kind := 0
		switch {
		case strings.HasPrefix(name, "P"):
			kind = 1
		case strings.HasPrefix(name, "SS"), strings.HasPrefix(name, "SUN"):
			kind = 2
		}
		if strings.Contains(name, "UNS") {
			delete(c.subs[kind], words[1])
		} else {
			c.subs[kind][words[1]] = true
		}
		count, sign := len(c.subs[0])+len(c.subs[1]), "*"
		if kind == 2 {
			count = len(c.subs[2])
		}
		if c.protocol == 3 {
			sign = ">"
		}
		return fmt.Sprintf("%s3 %s %s :%d", sign, strings.ToLower(name), words[1], count)
	case "CLIENT":
		return m.clientCommand(c, words[1:])
	}
	panic(name)
}

func (m *model) clientCommand(c *client, words []string) string {
	if words[0] == "CACHING" {
		mode := map[string]string{"YES": "optin", "NO": "optout"}[words[1]]
		switch {
		case !c.tracks:
			return "-ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled"
		case !c.mode[mode]:
			return "-ERR CLIENT CACHING " + words[1] + " is only valid when tracking is enabled in " +
				strings.ToUpper(mode) + " mode."
		}
		c.caching = true
		return "+OK"
	}
	if words[1] == "OFF" {
		m.untrack(c)
		return "+OK"
	}
	mode, redirect, prefixes := map[string]bool{}, int64(0), []string{}
	for i := 2; i < len(words); i++ {
		switch words[i] {
		case "REDIRECT":
			i++
			fmt.Sscan(words[i], &redirect)
			if m.clients[redirect] == nil {
				return "-ERR The client ID you want…"
			}
		case "PREFIX":
			i++
			prefixes = append(prefixes, words[i])
		default:
			mode[strings.ToLower(words[i])] = true
		}
	}
	switch {
	case !mode["bcast"] && len(prefixes) > 0:
		return "-ERR PREFIX option…"
	case c.tracks && mode["bcast"] != c.mode["bcast"]:
		return "-ERR You can't switch BCAST…"
	case mode["bcast"] && (mode["optin"] || mode["optout"]):
		return "-ERR OPTIN and OPTOUT are not…"
	case mode["optin"] && mode["optout"]:
		return "-ERR You can't specify both…"
	case mode["optin"] && c.mode["optout"] || mode["optout"] && c.mode["optin"]:
		return "-ERR You can't switch OPTIN…"
	}
	overlap := func(a, b string) bool { return strings.HasPrefix(a, b) || strings.HasPrefix(b, a) }
	for i, prefix := range prefixes {
		for other := range c.prefixes {
			if overlap(prefix, other) {
				return "-ERR Prefix '" + prefix + "' overlaps with an existing prefix…"
			}
		}
		for _, other := range prefixes[i+1:] {
			if overlap(prefix, other) {
				return "-ERR Prefix '" + prefix + "' overlaps with another provided prefix…"
			}
		}
	}
	c.tracks, c.mode, c.redirect = true, mode, redirect
	for _, prefix := range prefixes {
		c.prefixes[prefix] = true
	}
	if mode["bcast"] && len(prefixes) == 0 {
		c.prefixes[""] = true
	}
	return "+OK"
}
