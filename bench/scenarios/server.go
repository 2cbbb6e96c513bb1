package scenarios

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"spindle/bench/load"
	"spindle/bench/process"
	"spindle/protocol/respclient"
)

// A Server is a running contender, in its own folder.
type Server struct {
	Contender
	Address string
	Admin   string // spindle's admin-address
	Dir     string
	PID     int
	Client  *respclient.Client // for the bench's questions; load has its own connections

	env  *Env
	cmd  *exec.Cmd
	log  *os.File
	cpus process.CPUs
	done chan error
}

// A Start has further options for the start of a contender.
type Start struct {
	Args []string
	Env  []string
	Wrap []string      // a program, with its arguments, that becomes the server; nil means none
	Dir  string        // the folder of the data; "" means a new one
	CPUs *process.CPUs // nil means Env.ServerCPUs
	Wait time.Duration // the time limit until it replies; 0 means 20 s
}

// arguments returns the arguments of c, with those common to all: no automatic saves, and DEBUG allowed from this
// machine.
func (c Contender) arguments() []string {
	return append([]string{"--save", "", "--enable-debug-command", "local"}, c.Args...)
}

// Begin starts c and waits until it replies.
func (e *Env) Begin(c Contender, start Start) (*Server, error) {
	s := &Server{Contender: c, env: e, Dir: start.Dir, cpus: e.ServerCPUs, done: make(chan error, 1)}
	if start.CPUs != nil {
		s.cpus = *start.CPUs
	}
	if s.Dir == "" {
		dir, err := os.MkdirTemp(e.Scratch, strings.ReplaceAll(c.Name, " ", "-")+"-")
		if err != nil {
			return nil, err
		}
		s.Dir = dir
	}
	port, err := e.port()
	if err != nil {
		return nil, err
	}
	s.Address = "127.0.0.1:" + strconv.Itoa(port)
	args := append([]string{"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", s.Dir}, c.arguments()...)
	if c.Kind == Spindle {
		if port, err = e.port(); err != nil {
			return nil, err
		}
		s.Admin = "127.0.0.1:" + strconv.Itoa(port)
		args = append(args, "--admin-address", s.Admin)
	}
	if s.log, err = os.Create(filepath.Join(s.Dir, "log")); err != nil {
		return nil, err
	}
	words := append(append(append([]string(nil), start.Wrap...), c.Path), append(args, start.Args...)...)
	s.cmd = exec.Command(words[0], words[1:]...)
	s.cmd.Stdout, s.cmd.Stderr, s.cmd.Env = s.log, s.log, append(os.Environ(), start.Env...)
	if err := process.Start(s.cmd, s.cpus); err != nil {
		return nil, err
	}
	s.PID = s.cmd.Process.Pid
	go func() { s.done <- process.Wait(s.cmd) }()
	if start.Wait == 0 {
		start.Wait = 20 * time.Second
	}
	if err := s.await(start.Wait); err != nil {
		err = fmt.Errorf("%w; its log ends: %s", err, s.logTail())
		if s.Stop(); start.Dir == "" {
			_ = os.RemoveAll(s.Dir) // Env.Scratch is removed as a whole at the end
		}
		return nil, err
	}
	return s, nil
}

// port returns the next port of the bench's range on which no server listens.
func (e *Env) port() (int, error) {
	count := max(e.ports, 20)
	for range count {
		port := e.Port + e.nextPort%count
		e.nextPort++
		l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
		if err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("no port from %d to %d is free", e.Port, e.Port+count-1)
}

// errLoading means that the server runs but has not read its file yet.
var errLoading = errors.New("the server is loading")

// await sends PING until the server replies.
func (s *Server) await(limit time.Duration) error {
	deadline := time.Now().Add(limit)
	for {
		err := s.ping()
		if err == nil {
			return nil
		}
		select {
		case exit := <-s.done:
			s.done <- exit
			return fmt.Errorf("the server ended: %v", exit)
		case <-s.env.Context.Done():
			return s.env.Context.Err()
		default:
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("no answer within %v: %w", limit, err)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func (s *Server) ping() error {
	if s.Client == nil {
		client, err := respclient.DialTimeout(s.Address, time.Second)
		if err != nil {
			return err
		}
		s.Client = client
	}
	s.Client.SetTimeout(time.Minute)
	v, err := s.Client.Do("PING")
	if err != nil {
		s.Client.Close()
		s.Client = nil
		return err
	}
	if v.Err() != nil {
		return fmt.Errorf("%w: %v", errLoading, v.Err())
	}
	return nil
}

// End kills the server, waits for it and removes its data.
func (s *Server) End() {
	s.Stop()
	_ = os.RemoveAll(s.Dir) // Env.Scratch is removed as a whole at the end
}

// Stop is End, but keeps the data.
func (s *Server) Stop() {
	if s.Client != nil {
		s.Client.Close()
		s.Client = nil
	}
	_ = s.cmd.Process.Signal(syscall.SIGKILL) // the server may have ended before
	err := <-s.done
	s.done <- err
	s.log.Close()
}

func (s *Server) logTail() string {
	text, err := os.ReadFile(s.log.Name())
	if err != nil {
		return err.Error()
	}
	if len(text) > 600 {
		text = text[len(text)-600:]
	}
	return strings.TrimSpace(string(text))
}

// Do sends a request to the server. An error reply is returned as an error.
func (s *Server) Do(args ...any) (respclient.Value, error) {
	v, err := s.Client.Do(args...)
	if err == nil {
		err = v.Err()
	}
	if err != nil {
		return v, fmt.Errorf("%s: %v: %w", s.Name, args[0], err)
	}
	return v, nil
}

// Load runs spec against the server, and reads its CPU clock during the run.
func (s *Server) Load(spec load.Spec) (*load.Result, error) {
	r, err := s.StartLoad(spec)
	if err != nil {
		return nil, err
	}
	return s.finish(r)
}

// StartLoad is Load without waiting for the end.
func (s *Server) StartLoad(spec load.Spec) (*load.Runner, error) {
	return load.Start(s.address(spec), s.env.LoadCPUs)
}

// address returns spec with the address of s.
func (s *Server) address(spec load.Spec) load.Spec {
	spec.Address, spec.Server = s.Address, s.PID
	return spec
}

// finish waits for a run and returns its result.
func (s *Server) finish(r *load.Runner) (*load.Result, error) {
	result, err := r.Wait()
	if err != nil {
		return nil, fmt.Errorf("%s: %w; the server's log ends: %s", s.Name, err, s.logTail())
	}
	return result, s.refuseErrors(result)
}

// refuseErrors returns an error if the server sent error replies, because an error is cheaper than a result.
func (s *Server) refuseErrors(r *load.Result) error {
	if r.Errors > 0 {
		return fmt.Errorf("%s answered %d requests with errors, the first: %s", s.Name, r.Errors, r.FirstErr)
	}
	return nil
}

// Fill runs spec and returns an error unless every reply comes.
func (s *Server) Fill(spec load.Spec) error {
	r, err := s.Load(spec)
	if err != nil {
		return err
	}
	if r.Requests != spec.Requests {
		return fmt.Errorf("%s: %d of %d requests", s.Name, r.Requests, spec.Requests)
	}
	return nil
}
