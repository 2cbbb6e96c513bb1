package install

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"spindle/internal/setting"
	"spindle/tests/testkit"
)

// A manifest has the fields of a Kubernetes object that the tests read.
type manifest struct {
	Kind string
	Data map[string]string
	Spec struct {
		Template struct {
			Spec struct {
				Grace      int `yaml:"terminationGracePeriodSeconds"`
				Containers []struct {
					Args      []string
					Startup   probe `yaml:"startupProbe"`
					Ready     probe `yaml:"readinessProbe"`
					Alive     probe `yaml:"livenessProbe"`
					Resources struct{ Limits struct{ Memory string } }
				}
			}
		}
	}
}

// A probe has the part of a probe that the server answers.
type probe struct {
	Get struct{ Path, Port string } `yaml:"httpGet"`
}

// TestKubernetes: the server accepts the example's configuration and arguments. It answers each probe, and the limits
// of the pod fit the settings.
func TestKubernetes(t *testing.T) {
	t.Parallel()
	f, err := os.Open("../../packaging/kubernetes/spindle.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	objects := map[string]manifest{}
	for decoder := yaml.NewDecoder(f); ; {
		var m manifest
		if err := decoder.Decode(&m); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		objects[m.Kind] = m
	}
	pod := objects["StatefulSet"].Spec.Template.Spec
	if len(objects) != 3 || len(pod.Containers) != 1 {
		t.Fatalf("the example has other objects: %+v", objects)
	}
	container := pod.Containers[0]
	file := filepath.Join(t.TempDir(), "spindle.conf")
	text := strings.Replace(objects["ConfigMap"].Data["spindle.conf"], "dir /data", "dir "+t.TempDir(), 1)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	port, admin := testkit.FreePort(t), testkit.FreePort(t)
	args := []string{file}
	for _, arg := range container.Args[1:] {
		args = append(args, strings.NewReplacer("$(PASSWORD)", "secret", "$(ADMIN_TOKEN)", "token").Replace(arg))
	}
	args = append(args, "--bind", "127.0.0.1", "--port", strconv.Itoa(port),
		"--admin-address", fmt.Sprintf("127.0.0.1:%d", admin))
	testkit.Launch(t, testkit.Spec{Bare: true, Port: port, Args: args})

	for name, p := range map[string]probe{"startup": container.Startup, "readiness": container.Ready,
		"liveness": container.Alive} {
		testkit.Until(t, testkit.Slowly(10*time.Second), name+" probe", func() error {
			r, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d%s", admin, p.Get.Path))
			if err != nil {
				return err
			}
			defer r.Body.Close()
			return testkit.Equal(r.StatusCode, http.StatusOK)
		})
	}
	c := dialled(t, port)
	c.Must("AUTH", "secret")
	value := func(name string) uint64 {
		n, err := strconv.ParseUint(c.Must("CONFIG", "GET", name).Elems[1].Text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if wait := value("shutdown-timeout"); uint64(pod.Grace) <= wait {
		t.Errorf("the pod is killed after %d s, and the server may wait %d s for its replicas", pod.Grace, wait)
	}
	limit, valid := setting.ParseMemory(strings.Replace(container.Resources.Limits.Memory, "Gi", "gb", 1))
	if !valid || value("maxmemory") > limit/10*8 {
		t.Errorf("maxmemory is %d of %s", value("maxmemory"), container.Resources.Limits.Memory)
	}
}
