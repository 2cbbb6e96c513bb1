package server

import (
	"fmt"
	"math"
	"net"
	"spindle/admin"
	"spindle/engine"
	"spindle/internal/config"
	"spindle/internal/process"
	"spindle/internal/setting"
	"spindle/reactor"
)

// processSettings are the settings of the process, and those without an effect.
type processSettings struct {
	Process process.Settings
	Idle    config.Idle
}

// ownSettings are the settings of this package.
type ownSettings struct {
	Backend    setting.Enum[reactor.Backend]
	Admin      setting.String
	AdminToken setting.String // "": none is required
	AdminHost  setting.String
	AdminOpen  setting.Bool // without a token it may be reached from other machines
	AdminTLS   setting.Bool
	Console    setting.String // the user whose rights the page's console has; "": there is no console

	LanePort       setting.Int // 0: none
	LaneBind       setting.Value[[]string]
	LaneSocket     setting.String
	LaneSocketPerm setting.Int
	Unsupported    setting.Enum[onUnsupported]
	Protected      setting.Enum[engine.Permission] // enable-protected-configs
}

func (s *ownSettings) rows() []setting.Row {
	return []setting.Row{
		setting.NewEnum("reactor-backend", &s.Backend, reactor.Gnet, []setting.Choice[reactor.Backend]{
			{Name: "gnet", Value: reactor.Gnet}, {Name: "epoll", Value: reactor.Epoll},
			{Name: "netpoll", Value: reactor.Netpoll}, {Name: "io_uring", Value: reactor.IOUring},
		}, setting.Fixed),
		setting.NewString("admin-address", &s.Admin, "", setting.Fixed),
		setting.NewString("admin-token", &s.AdminToken, "", setting.Fixed, setting.Sensitive),
		setting.NewString("admin-host", &s.AdminHost, "", setting.Fixed),
		setting.NewBool("admin-open", &s.AdminOpen, false, setting.Fixed),
		setting.NewBool("admin-tls", &s.AdminTLS, false, setting.Fixed),
		setting.NewString("admin-console-user", &s.Console, "", setting.Fixed),
		setting.NewInt("admin-port", &s.LanePort, 0, setting.Between(0, math.MaxUint16), setting.Fixed),
		setting.NewValue("admin-bind", &s.LaneBind, []string{"127.0.0.1"}, reactor.Addresses,
			setting.MultiArg, setting.Fixed),
		setting.NewString("admin-unixsocket", &s.LaneSocket, "", setting.Fixed),
		setting.NewOctal("admin-unixsocketperm", &s.LaneSocketPerm, 0, setting.Between(0, 0o777), setting.Fixed),
		setting.NewEnum("enable-protected-configs", &s.Protected, engine.PermitNobody, engine.Permissions, setting.Immutable),
		setting.NewEnum("unsupported-directives", &s.Unsupported, refuseUnsupported, []setting.Choice[onUnsupported]{
			{Name: "refuse", Value: refuseUnsupported}, {Name: "warn", Value: warnUnsupported},
		}, setting.Fixed),
	}
}

// An onUnsupported says what happens to a start that asks for an unsupported directive.
type onUnsupported int

const (
	refuseUnsupported onUnsupported = iota
	warnUnsupported                 // the server starts without the feature, and the log says so
)

// hasLane reports whether the configuration asks for an admin lane. A Sentinel has none.
func (s *ownSettings) hasLane(sentinel bool) bool {
	return (s.LanePort.Get() != 0 || s.LaneSocket.Get() != "") && !sentinel
}

// files counts the descriptors in addition to those of clients.
func (s *ownSettings) files(n *reactor.ListenSettings, sentinel bool) uint64 {
	loops := max(n.Loops.Get(), int64(n.Most()))
	return filesBeside(loops, s.hasLane(sentinel), len(s.LaneBind.Get()), s.Admin.Get() != "")
}

// adminSocket returns the socket of admin-address.
func (s *ownSettings) adminSocket() (network string, at *net.TCPAddr, err error) {
	address := s.Admin.Get()
	network, at, err = admin.Resolve(address, s.AdminToken.Get(), s.AdminOpen.Get())
	if err != nil {
		err = fmt.Errorf("admin-address %s: %w", address, err)
	}
	return network, at, err
}
