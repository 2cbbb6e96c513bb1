package server

import (
	"net"
	"spindle/admin"
	"spindle/cluster"
	"spindle/cluster/migrate"
	"spindle/cluster/slotmove"
	"spindle/dataset"
	"spindle/engine"
	"spindle/engine/catalogue"
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/data/keyspace"
	"spindle/engine/data/memory"
	"spindle/engine/diagnose"
	"spindle/engine/family/acl"
	"spindle/engine/family/maintenance"
	"spindle/engine/family/modules"
	"spindle/engine/family/pubsub"
	"spindle/engine/family/tracking"
	"spindle/engine/family/tx"
	"spindle/engine/part"
	"spindle/internal/config"
	"spindle/internal/info"
	"spindle/internal/logging"
	"spindle/internal/process"
	"spindle/internal/setting"
	"spindle/internal/slots"
	"spindle/internal/tlsconfig"
	"spindle/lane"
	"spindle/lazyfree"
	"spindle/overview"
	"spindle/protocol"
	"spindle/reactor"
	"spindle/scripting"
	"spindle/sentinel"
	"sync/atomic"
)

// An instance is one server: its parts, and how they are joined.
type instance struct {
	log      *logging.Logger
	parts    part.List
	settings processSettings
	core     *engine.Core
	registry *setting.Registry
	config   *config.Config

	asSentinel bool
	mode       string            // the word of INFO, HELLO and the log for this server's mode
	watcher    *sentinel.Machine // nil in a server
	watching   *sentinel.Commands
	world      *sentinel.Net // of watcher

	network        reactor.Settings
	sockets        reactor.ListenSettings
	engine         engine.Settings
	common         command.Settings
	data           catalogue.Settings
	records        diagnose.Settings
	scriptSettings scripting.Settings
	storage        dataset.Settings
	access         acl.Settings
	tracking       tracking.Settings
	tls            tlsconfig.Settings
	clustering     cluster.Settings
	moving         slotmove.Settings
	own            ownSettings

	heap      *memory.Heap
	lazy      *lazyfree.Queue
	space     *keyspace.Keyspace
	clients   *client.Registry
	catalogue *command.Catalogue
	watches   *tx.Watches
	hub       *pubsub.Hub
	tracker   *tracking.Tracker
	notices   maintenance.Notices
	modules   *modules.Modules
	set       *dataset.Set
	gate      *protocol.Gate
	scripts   *scripting.Scripts
	slots     slots.Current    // the node of each slot; none outside cluster mode
	cluster   *cluster.Cluster // nil outside cluster mode
	mover     *slotmove.Mover  // nil outside cluster mode
	beatMs    atomic.Int64     // when the core last did its duties, by clock.Steady
	migrator  *migrate.Migrator
	whole     command.Whole
	rewriter  *config.Rewriter
	sections  []info.Section

	backend      reactor.Backend // that serves: own.Backend, or gnet if this machine lacks it
	listening    listening
	certificates tlsconfig.Current
	titles       titles
	threads      overview.Threads
	clientLog    overview.ClientLog
	figures      *overview.Figures
	health       overview.Health
	page         overview.Page

	signals    *process.Signals
	supervisor *process.Supervisor
	oom        *process.OomAdjuster
	admin      *admin.Server
	adminAt    net.Addr
	lane       atomic.Pointer[lane.Lane] // nil: there is none
	pidFile    string
	checking   *config.Check // --check-config; nil in a server
}
