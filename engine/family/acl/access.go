package acl

import (
	"math"
	"slices"

	"spindle/engine/acl"
	"spindle/engine/command"
	"spindle/engine/part"
	"spindle/internal/config"
	"spindle/internal/logging"
	"spindle/internal/setting"
)

// Settings are the settings of users. requirepass belongs to the core.
type Settings struct {
	File      setting.String
	LogLength setting.Int
	PubSub    setting.Enum[Channels]
}

// Channels says which channels a new user may publish and subscribe to.
type Channels int

const (
	NoChannels Channels = iota
	AllChannels
)

// Rows returns the settings, with their defaults.
func (s *Settings) Rows() []setting.Row {
	return []setting.Row{
		setting.NewString("aclfile", &s.File, "", setting.Immutable, setting.KeepEmpty),
		setting.NewInt("acllog-max-len", &s.LogLength, 128, setting.Between(0, math.MaxInt64)),
		setting.NewEnum("acl-pubsub-default", &s.PubSub, NoChannels, []setting.Choice[Channels]{
			{Name: "allchannels", Value: AllChannels}, {Name: "resetchannels", Value: NoChannels},
		}),
	}
}

// Join sets the fields of the Part of users. password returns requirepass, and load makes the users.
func (s *Settings) Join(p *part.Part, d Deps, r *setting.Registry, password func() string, load *Loader) {
	p.Families = []command.Family{Family(d)}
	p.Follows = []part.Follow{
		part.On(func() { d.Users.SetPubSubDefault(s.PubSub.Get() == AllChannels) }, "acl-pubsub-default"),
		part.On(func() { d.Log().SetLimit(int(s.LogLength.Get())) }, "acllog-max-len"),
		part.On(func() { d.Users.SetDefaultPassword(password()) }, "requirepass"),
	}
	p.Ready = load.Load
	p.Reset = func() { d.Log().ResetDenied() }
	r.OnRewrite("user", func() []string {
		if s.File.Get() != "" {
			return nil // the users are in that file
		}
		var lines []string
		for _, name := range d.Users.Names() {
			lines = append(lines, name+" "+d.Users.Find([]byte(name)).Rights().Text())
		}
		return lines
	})
}

// A Loader makes the users when the server starts.
type Loader struct {
	Users   *acl.Users
	File    func() string // the ACL file; "" if there is none
	Config  *config.Config
	Log     *logging.Logger
	Do      func(func())                              // takes a turn
	Refused func(err error, at ...config.Error) error // the error that ends the start; nil if the start continues
}

// Load makes the users of the configuration file, or those of the ACL file.
//
// Errors: a wrong user line; config.ErrLogged.
func (l *Loader) Load() error {
	if l.File() != "" && len(l.Config.Users) > 0 {
		l.Log.Warning("Configuring Redis with users defined in redis.conf and at the same setting an ACL file path is " +
			"invalid. " +
			"Please define users either in the ACL file or in redis.conf, but not in both.")
		return l.Refused(config.ErrLogged, l.Config.At("aclfile"))
	}
	lines := make([][][]byte, len(l.Config.Users))
	for i, line := range l.Config.Users {
		for _, word := range line.Words {
			lines[i] = append(lines[i], []byte(word))
		}
	}
	for {
		at, err := l.Users.CheckLines(lines)
		if err == nil {
			break
		}
		if err := l.Refused(l.Config.Users[at].Refuse(err)); err != nil {
			return err
		}
		lines = slices.Delete(lines, at, at+1)
		l.Config.Users = slices.Delete(l.Config.Users, at, at+1)
	}
	var failure error
	l.Do(func() { failure = l.fill(lines) })
	return failure
}

// fill makes the users of lines, which have been checked, and then those of the ACL file.
func (l *Loader) fill(lines [][][]byte) (failure error) {
	for i := range lines {
		disabled, err := l.Users.Configure(lines[i : i+1])
		if err != nil {
			l.Log.Warning("%s", err)
			l.Log.Warning("Critical error while loading ACLs. Exiting.")
			if failure = l.Refused(config.ErrLogged, l.Config.Users[i].At); failure != nil {
				return failure
			}
		}
		for _, name := range disabled {
			l.Log.Notice("The user '%s' is disabled (there is no 'on' modifier in the user description). "+
				"Make sure this is not a configuration error.", name)
		}
	}
	if l.File() == "" {
		return failure
	}
	if _, err := l.Users.Load(l.File()); err != nil {
		l.Log.Warning("Aborting Redis startup because of ACL errors: %s", err)
		failure = l.Refused(config.ErrLogged, l.Config.At("aclfile"))
	}
	return failure
}
