package objectstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit/s3test"
)

// optionsOf returns the options for a test's server. A request is tried three times.
func optionsOf(s *s3test.Server) S3Options {
	return S3Options{Bucket: s3test.Bucket, Prefix: "a b/ü+", Endpoint: s.URL, Region: s3test.Region, Now: time.Now,
		Credentials: Credentials{ID: s3test.ID, Secret: s3test.Secret}, Tries: 3, Pause: time.Millisecond}
}

func opened(t *testing.T, o S3Options) *S3 {
	t.Helper()
	s, err := OpenS3(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// stores returns an S3 store and a folder, both empty.
func stores(t *testing.T) map[string]Store {
	t.Helper()
	folder, err := OpenFolder(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return map[string]Store{"s3": opened(t, optionsOf(s3test.Start(t))), "folder": folder}
}

// TestStores: objects are written, read, replaced, listed by prefix over several pages, and removed.
func TestStores(t *testing.T) {
	for name, s := range stores(t) {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			want := map[string]string{}
			for i := range 8 {
				key := fmt.Sprintf("parts/%02x/part-%d", i%3, i)
				body := strings.Repeat("x", i*1000)
				want[key] = body
				if checked, err := s.Put(ctx, key, []byte(body)); err != nil || checked != (name == "s3") {
					t.Fatalf("%s: %t, %v", key, checked, err)
				}
			}
			if _, err := s.Put(ctx, "other/parts/1", []byte("1")); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Put(ctx, "parts/00/part-0", []byte("again")); err != nil {
				t.Fatal(err)
			}
			want["parts/00/part-0"] = "again"
			var keys []string
			err := s.List(ctx, "parts/", func(o Object) {
				keys = append(keys, o.Key)
				if int(o.Size) != len(want[o.Key]) || time.Since(o.Modified).Abs() > time.Hour {
					t.Errorf("%+v", o)
				}
			})
			if err != nil || len(keys) != len(want) || !slices.IsSorted(keys) {
				t.Errorf("%v, %v", keys, err)
			}
			for key, body := range want {
				if got, err := s.Get(ctx, key); err != nil || string(got) != body {
					t.Errorf("%s: %.20q, %v", key, got, err)
				}
			}
			for range 2 {
				if err := s.Delete(ctx, "parts/00/part-0"); err != nil {
					t.Error(err)
				}
			}
			if _, err := s.Get(ctx, "parts/00/part-0"); !errors.Is(err, ErrMissing) {
				t.Error(err)
			}
			if err := s.List(ctx, "nothing/", func(o Object) { t.Error(o) }); err != nil {
				t.Error(err)
			}
			stopped, stop := context.WithCancel(ctx)
			stop()
			if _, err := s.Put(stopped, "parts/late", nil); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
}

// TestRetries: a request that fails for a time is sent again, and one that is refused is not.
func TestRetries(t *testing.T) {
	server := s3test.Start(t)
	s := opened(t, optionsOf(server))
	for _, f := range []s3test.Fault{{Status: 500, Code: "InternalError"}, {Status: 503, Code: "SlowDown"}, {},
		{Late: true}, {Status: 400, Code: "RequestTimeout"}} {
		server.Before(func(n int, r *http.Request) *s3test.Fault {
			if n < 3 {
				return &f
			}
			return nil
		})
		if _, err := s.Put(t.Context(), "k", []byte("v")); err != nil || server.Requests() != 3 {
			t.Errorf("%+v: %v after %d requests", f, err, server.Requests())
		}
	}
	for _, f := range []s3test.Fault{{Status: 403, Code: "AccessDenied"}, {Status: 507, Code: "XMinioStorageFull"}} {
		server.Before(func(int, *http.Request) *s3test.Fault { return &f })
		if _, err := s.Put(t.Context(), "k", []byte("v")); err == nil || server.Requests() != 1 {
			t.Errorf("%+v: %v after %d requests", f, err, server.Requests())
		}
	}
}

// TestRefusals: an error names the store, the request and a remedy, and never a secret.
func TestRefusals(t *testing.T) {
	server := s3test.Start(t)
	for _, c := range []struct {
		change func(o *S3Options)
		skew   time.Duration
		want   string
	}{
		{func(o *S3Options) { o.Credentials.ID = "AKIAOTHER" }, 0, `does not know the access key "AKIAOTHER"`},
		{func(o *S3Options) { o.Credentials.Secret = "other" }, 0, "the secret access key is wrong"},
		{func(o *S3Options) { o.Region = "other" }, 0, `not in the region "other": set --region`},
		{func(o *S3Options) { o.Bucket = "other" }, 0, `there is no bucket "other"`},
		{func(o *S3Options) {}, time.Hour, "set this host's clock"},
		{func(o *S3Options) { o.Endpoint = "http://127.0.0.1:1" }, 0, "connection refused"},
		{func(o *S3Options) { o.Endpoint = strings.Replace(o.Endpoint, "http", "https", 1) }, 0, "HTTPS"},
	} {
		server.Skew(c.skew)
		o := optionsOf(server)
		c.change(&o)
		_, err := opened(t, o).Get(t.Context(), "k")
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "s3://") {
			t.Errorf("%v, want %q", err, c.want)
		} else if strings.Contains(err.Error(), o.Credentials.Secret+" ") || strings.Contains(err.Error(), s3test.Secret) {
			t.Errorf("the secret is in the error: %v", err)
		}
	}
}

// TestToken: a session token is sent and signed. The server refuses AWS headers that are not signed.
func TestToken(t *testing.T) {
	server := s3test.Start(t)
	o := optionsOf(server)
	o.Credentials.Token = "token/of a session"
	seen := ""
	server.Before(func(_ int, r *http.Request) *s3test.Fault { seen = r.Header.Get("X-Amz-Security-Token"); return nil })
	if _, err := opened(t, o).Put(t.Context(), "k", nil); err != nil || seen != o.Credentials.Token {
		t.Errorf("%q, %v", seen, err)
	}
}

// TestUnchecked: a store whose reply has no known checksum counts as unchecked.
func TestUnchecked(t *testing.T) {
	server := s3test.Start(t)
	server.WithoutSums()
	s := opened(t, optionsOf(server))
	checked, err := s.Put(t.Context(), "k", []byte("v"))
	if err != nil || checked {
		t.Error(checked, err)
	}
	if got, err := s.Get(t.Context(), "k"); err != nil || !bytes.Equal(got, []byte("v")) {
		t.Error(got, err)
	}
}

// TestAddresses: the address of a bucket. In AWS's own store the host name contains the bucket.
func TestAddresses(t *testing.T) {
	c := Credentials{ID: "i", Secret: "s"}
	for want, o := range map[string]S3Options{
		"https://b.s3.eu-central-1.amazonaws.com/": {Bucket: "b", Region: "eu-central-1", Credentials: c},
		"http://h:1/b/":   {Bucket: "b", Endpoint: "http://h:1", Credentials: c},
		"https://b.h:1/":  {Bucket: "b", Endpoint: "https://h:1/", VirtualHost: true, Credentials: c},
		"":                {Bucket: "b", Endpoint: "h:1", Credentials: c},
		"access key":      {Bucket: "b", Endpoint: "http://h:1"},
		"form https://":   {Bucket: "b", Endpoint: "http://h:1/below", Credentials: c},
		"is no address":   {Bucket: "b", Endpoint: "http://h:1\x00", Credentials: c},
		"AWS_ACCESS_KEY_": {Bucket: "b", Endpoint: "http://h:1", Credentials: Credentials{ID: "i"}},
	} {
		s, err := OpenS3(o)
		if err == nil && s.base.String() != want || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, %v, want %q", o, s, err, want)
		}
	}
	if _, err := OpenFolder("/nowhere/at all"); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Error(err)
	}
	if _, err := OpenFolder("/dev/null"); err == nil || !strings.Contains(err.Error(), "is no folder") {
		t.Error(err)
	}
}
