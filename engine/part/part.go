// Package part defines what a feature gives to the server.
//
// Owner: the main goroutine while the server is put together; the functions of a Part run inside the turn.
// Start at Part.
package part

import (
	"github.com/prometheus/client_golang/prometheus"

	"spindle/engine/command"
	"spindle/internal/info"
	"spindle/internal/setting"
)

// A Part is a feature as the server sees it. Every field but Name may be empty.
//
// The server makes all parts before it reads the configuration, and then takes their Rows. After that it calls Join
// once, in the order of the parts. Join sets the fields below it. Only then does the server read these fields.
type Part struct {
	Name string
	Rows []setting.Row // the settings of the feature
	Join func(p *Part) error

	Families  []command.Family
	Follows   []Follow
	Sections  []info.Section // what INFO shows; fields of one section come in the order of the parts
	Barriers  []*Barrier     // a client meets them in the order of the parts
	Listeners []Listeners

	Threads func() Need            // what the feature needs threads for now
	Ill     func() (reason string) // why this server should get no traffic; "" is no reason
	Reset   func()                 // CONFIG RESETSTAT: the feature clears its counts
	Metrics []prometheus.Collector // figures of /metrics; they collect outside the turn
	Named   []prometheus.Collector // figures that name keys: for readers with the token
	Ready   func() error           // the settings are read; an error refuses the configuration
	Check   func() error           // refuses a start, before the server listens
	Open    func() error           // opens what belongs to the feature, once the server listens
	Loaded  func()                 // the data set is loaded; it runs in a turn
	Stop    func()                 // the last step of the feature at shutdown; it runs outside the turn
}

// A Follow is what a feature does when one of the settings in Names changes.
type Follow struct {
	Names []string
	// Do runs after the configuration is read, and after each CONFIG SET that changes one of the settings.
	Do func()
	// Try runs only after such a CONFIG SET. An error undoes the CONFIG SET.
	Try func() error
}

// On returns a Follow whose function cannot fail.
func On(do func(), names ...string) Follow { return Follow{Names: names, Do: do} }

// A Need is a reason why a server runs more threads than loops.
type Need uint8

const (
	Idle    Need = iota
	Laden        // one more thread: a goroutine waits in the kernel, or reclaimers are busy
	Working      // several threads: a saver, a loader or a script works
)
