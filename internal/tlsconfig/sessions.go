package tlsconfig

import (
	"crypto/rand"
	"crypto/tls"
	"sync"
	"time"
)

// sessions stores the sessions that clients may resume. A client's ticket is only a number; the session stays here, so
// that size and timeout hold. A new configuration begins with none.
//
// tlsconfig.S1. order has the sessions by age; order[head:] are those in byID.
type sessions struct {
	size    int           // the most sessions; 0: no bound
	timeout time.Duration // how long a session is stored
	now     func() time.Time

	mu    sync.Mutex
	byID  map[sessionID]session
	order []sessionID
	head  int
}

type sessionID [16]byte

type session struct {
	state []byte
	since time.Time
}

func newSessions(size int, timeout time.Duration) *sessions {
	return &sessions{size: size, timeout: timeout, now: time.Now, byID: map[sessionID]session{}}
}

// wrap is tls.Config.WrapSession.
func (s *sessions) wrap(_ tls.ConnectionState, state *tls.SessionState) ([]byte, error) {
	text, err := state.Bytes()
	if err != nil {
		return nil, err
	}
	var id sessionID
	rand.Read(id[:])
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for s.head < len(s.order) {
		oldest := s.order[s.head]
		if now.Sub(s.byID[oldest].since) <= s.timeout && (s.size == 0 || len(s.byID) < s.size) {
			break
		}
		delete(s.byID, oldest)
		s.head++
	}
	if s.head > len(s.order)/2 {
		s.order = append(s.order[:0], s.order[s.head:]...)
		s.head = 0
	}
	s.byID[id] = session{text, now}
	s.order = append(s.order, id)
	return id[:], nil
}

// unwrap is tls.Config.UnwrapSession. It returns nil for an unknown or expired session.
func (s *sessions) unwrap(ticket []byte, _ tls.ConnectionState) (*tls.SessionState, error) {
	if len(ticket) != len(sessionID{}) {
		return nil, nil
	}
	s.mu.Lock()
	kept, known := s.byID[sessionID(ticket)]
	old := s.now().Sub(kept.since) > s.timeout
	s.mu.Unlock()
	if !known || old {
		return nil, nil
	}
	return tls.ParseSessionState(kept.state)
}
