package server

import (
	"math"
	"slices"

	"spindle/engine/acl"
	"spindle/engine/client"
	"spindle/engine/command"
	family "spindle/engine/family/acl"
	"spindle/engine/family/pubsub"
	"spindle/internal/config"
	"spindle/internal/setting"
)

// accessSettings are those of the users; requirepass is the core's.
type accessSettings struct {
	File      setting.String
	LogLength setting.Int
	PubSub    setting.Enum[channels]
}

// channels are what a new user may publish and subscribe to.
type channels int

const (
	noChannels channels = iota
	allChannels
)

func (s *accessSettings) rows() []setting.Row {
	return []setting.Row{
		setting.NewString("aclfile", &s.File, "", setting.Immutable, setting.KeepEmpty),
		setting.NewInt("acllog-max-len", &s.LogLength, 128, setting.Between(0, math.MaxInt64)),
		setting.NewEnum("acl-pubsub-default", &s.PubSub, noChannels, []setting.Choice[channels]{
			{Name: "allchannels", Value: allChannels}, {Name: "resetchannels", Value: noChannels},
		}),
	}
}

// joinUsers has the users and the log of refusals follow their settings, and CONFIG REWRITE write the users.
func (in *instance) joinUsers() {
	users := in.core.Users()
	in.registry.Follow(func() { users.SetPubSubDefault(in.access.PubSub.Get() == allChannels) }, "acl-pubsub-default")
	in.registry.Follow(func() { in.denials.SetLimit(int(in.access.LogLength.Get())) }, "acllog-max-len")
	in.registry.Follow(func() { users.SetDefaultPassword(in.engine.RequirePass.Get()) }, "requirepass")
	in.registry.OnRewrite("user", func() []string {
		if in.access.File.Get() != "" {
			return nil // they are in that file
		}
		var lines []string
		for _, name := range users.Names() {
			lines = append(lines, name+" "+users.Find([]byte(name)).Rights().Text())
		}
		return lines
	})
}

// loadUsers makes the users of the configuration, or those of the ACL file, when the settings are followed.
//
// Errors: a user line that is wrong; config.ErrLogged.
func (in *instance) loadUsers() error {
	path, users := in.access.File.Get(), in.core.Users()
	if path != "" && len(in.config.Users) > 0 {
		in.log.Warning("Configuring Redis with users defined in redis.conf and at the same setting an ACL file path is " +
			"invalid. " +
			"Please define users either in the ACL file or in redis.conf, but not in both.")
		return in.refused(config.ErrLogged, in.config.At("aclfile"))
	}
	lines := make([][][]byte, len(in.config.Users))
	for i, line := range in.config.Users {
		for _, word := range line.Words {
			lines[i] = append(lines[i], []byte(word))
		}
	}
	for {
		at, err := users.CheckLines(lines)
		if err == nil {
			break
		}
		if err := in.refused(in.config.Users[at].Refuse(err)); err != nil {
			return err
		}
		lines = slices.Delete(lines, at, at+1)
		in.config.Users = slices.Delete(in.config.Users, at, at+1)
	}
	var failure error
	in.core.Do(func() {
		for i := range lines {
			disabled, err := users.Configure(lines[i : i+1])
			if err != nil {
				in.log.Warning("%s", err)
				in.log.Warning("Critical error while loading ACLs. Exiting.")
				if failure = in.refused(config.ErrLogged, in.config.Users[i].At); failure != nil {
					return
				}
			}
			for _, name := range disabled {
				in.log.Notice("The user '%s' is disabled (there is no 'on' modifier in the user description). "+
					"Make sure this is not a configuration error.", name)
			}
		}
		if path == "" {
			return
		}
		if _, err := users.Load(path); err != nil {
			in.log.Warning("Aborting Redis startup because of ACL errors: %s", err)
			failure = in.refused(config.ErrLogged, in.config.At("aclfile"))
		}
	})
	return failure
}

// aclDeps are what ACL asks of the rest.
func (in *instance) aclDeps() family.Deps {
	return family.Deps{
		Users: in.core.Users(), Log: in.refusals,
		Catalogue:       func() *command.Catalogue { return in.catalogue },
		File:            in.access.File.Get,
		Kill:            func(c *command.Context, deleted *acl.User) { in.core.ExpelUser(deleted, c.Client) },
		KillSubscribers: in.killSubscribers,
		Warn:            func(text string) { in.log.Warning("%s", text) },
	}
}

// killSubscribers closes the clients of a user that hold a subscription which the user's rights no longer allow.
func (in *instance) killSubscribers(c *command.Context, changed *acl.User) {
	rights := changed.Rights()
	var doomed []*client.Client // first chosen, then closed: closing changes the registry
	for cl := range in.clients.All {
		if cl.User != client.User(changed) {
			continue
		}
		for kind, name := range in.hub.Names(cl) {
			if !rights.CheckChannel([]byte(name), kind == pubsub.Pattern) {
				doomed = append(doomed, cl)
				break
			}
		}
	}
	for _, cl := range doomed {
		in.core.Expel(cl, cl == c.Client)
	}
}

// denied books a refusal, of cl's or of a script that cl called.
func (in *instance) denied(cl *client.Client, e acl.Entry) {
	log := in.refusals()
	if log.Keeps() {
		e.Client = in.describe(cl)
	}
	log.Add(e, in.core.Now())
}

// refusals are ACL LOG and its counts, with what was refused beside the turn. Turn only.
func (in *instance) refusals() *acl.Log {
	if l := in.lane.Load(); l != nil {
		l.Book()
	}
	return &in.denials
}
