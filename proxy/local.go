package proxy

import (
	"spindle/protocol"
	"spindle/proxy/route"
)

// serveLocal serves a request that the proxy answers itself, or that changes the session.
func (s *session) serveLocal(q *protocol.Request, raw []byte) bool {
	pl := &s.w.plan
	if s.isSubscriber() && !allowedWhileListening(pl.Special) {
		s.refuseWhileListening(pl.Row)
		return true
	}
	if s.isSubscriber() && pl.Special == route.Ping {
		return s.pong(q)
	}
	if ofAnyShard(pl.Special) {
		return s.forward(-1, raw)
	}
	if wait, err := s.mayRun(pl.Row, q.Args, raw); wait {
		return false
	} else if err != nil {
		s.refuse(err)
		return true
	}
	switch pl.Special {
	case route.Publish:
		return s.publish(channelKind, -1, q.Args[1], raw)
	case route.SPublish:
		return s.publish(shardKind, pl.Slot, q.Args[1], raw)
	case route.Select:
		return s.selectDB(q.Args)
	case route.Auth:
		return s.auth(q.Args)
	case route.Hello:
		return s.hello(q.Args)
	case route.Reset:
		return s.reset()
	case route.Quit:
		s.quit = true
		s.sayOK()
		return true
	case route.CrossProtocol:
		s.w.p.log.Warning("A client at %s speaks HTTP; its connection is closed", s.conn.RemoteAddr())
		s.closed = true
		s.conn.Close(false)
		return true
	case route.Asking, route.ReadOnly, route.ReadWrite:
		s.sayOK()
		return true
	case route.Scan:
		return s.scanKeys(q.Args)
	case route.Subscribe:
		return s.subscribe(channelKind, q.Args, -1)
	case route.PSubscribe:
		return s.subscribe(patternKind, q.Args, -1)
	case route.SSubscribe:
		return s.subscribeShard(q.Args)
	case route.Unsubscribe:
		return s.unsubscribe(channelKind, q.Args)
	case route.PUnsubscribe:
		return s.unsubscribe(patternKind, q.Args)
	case route.SUnsubscribe:
		return s.unsubscribe(shardKind, q.Args)
	case route.Client:
		return s.client(q.Args)
	case route.Slowlog:
		return s.slowlog(q.Args)
	case route.Latency:
		return s.latency(q.Args)
	case route.Info:
		return s.info(q.Args)
	case route.Config:
		return s.config(q.Args)
	case route.PubSub:
		return s.pubsub(q.Args)
	case route.Cluster:
		return s.cluster(q.Args, raw)
	}
	s.refuse(errNotServed(pl.Row.Name))
	return true
}

// allowedWhileListening reports whether a RESP2 client may send a command while it has subscriptions.
func allowedWhileListening(sp route.Special) bool {
	switch sp {
	case route.Ping, route.Quit, route.Reset, route.Subscribe, route.Unsubscribe, route.PSubscribe, route.PUnsubscribe,
		route.SSubscribe, route.SUnsubscribe:
		return true
	}
	return false
}

func (s *session) refuseWhileListening(row *route.Row) {
	s.refuse(errListening(row.Name))
}

// ofAnyShard reports whether any shard answers the command.
func ofAnyShard(sp route.Special) bool {
	switch sp {
	case route.Ping, route.Echo, route.Time, route.Command:
		return true
	}
	return false
}

// mayQueue reports whether a command that the proxy treats in a special way is one of a shard inside a transaction.
func mayQueue(sp route.Special) bool {
	return ofAnyShard(sp) || sp == route.Publish || sp == route.SPublish
}

// pong is PING of a RESP2 client with subscriptions: it gets an array, as at a server.
func (s *session) pong(q *protocol.Request) bool {
	s.say(func(r *protocol.Reply) {
		r.Array(2)
		r.BulkString("pong")
		if len(q.Args) > 1 {
			r.Bulk(q.Args[1])
		} else {
			r.BulkString("")
		}
	})
	return true
}

// subscribeShard is SSUBSCRIBE. All channels are of one slot, as in a cluster.
func (s *session) subscribeShard(args [][]byte) bool {
	slot := -1
	for _, a := range args[1:] {
		at := s.w.p.table().Hasher.Slot(a)
		if slot >= 0 && at != slot {
			s.refuse(errCrossSlot)
			return true
		}
		slot = at
	}
	return s.subscribe(shardKind, args, slot)
}
