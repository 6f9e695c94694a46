// Reflector is the peer of the cache benchmark: it syncs all pods of a cluster into a client-go store and prints,
// as one JSON line, how long that took and how much memory the process has.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "path of the kubeconfig")
	contentType := flag.String("content-type", "application/json", "what to ask the API server for")
	settle := flag.Duration("settle", 2*time.Second, "time between synced and the look at the memory")
	expect := flag.Int("expect", 0, "number of pods that must be there")
	flag.Parse()
	if err := run(*kubeconfig, *contentType, *settle, *expect); err != nil {
		fmt.Fprintln(os.Stderr, "reflector:", err)
		os.Exit(1)
	}
}

func run(kubeconfig, contentType string, settle time.Duration, expect int) error {
	started := time.Now()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.ContentType = contentType
	config.AcceptContentTypes = contentType
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	store := &syncedStore{Store: cache.NewStore(cache.MetaNamespaceKeyFunc), synced: make(chan struct{})}
	pods := cache.NewListWatchFromClient(client.CoreV1().RESTClient(), "pods", corev1.NamespaceAll, fields.Everything())
	reflector := cache.NewReflectorWithOptions(pods, &corev1.Pod{}, store, cache.ReflectorOptions{})
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	go reflector.RunWithContext(ctx)
	select {
	case <-store.synced:
	case <-ctx.Done():
		return errors.New("not synced within 5 minutes")
	}
	took := time.Since(started)
	syncedAt := time.Now()
	cpu, err := processorTime()
	if err != nil {
		return err
	}
	time.Sleep(settle)
	if have := len(store.ListKeys()); have < expect {
		return fmt.Errorf("synced %d pods, expected %d", have, expect)
	}
	resident, err := memoryKiB("VmRSS")
	if err != nil {
		return err
	}
	peak, err := memoryKiB("VmHWM")
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{
		"objects":     len(store.ListKeys()),
		"syncedMs":    float64(took.Microseconds()) / 1000,
		"syncedAt":    syncedAt.UnixMilli(),
		"cpuMs":       float64(cpu.Microseconds()) / 1000,
		"residentKiB": resident,
		"peakKiB":     peak,
	})
}

// syncedStore drops managed fields, as our cache does by default, and says when the first list is complete.
type syncedStore struct {
	cache.Store
	once   sync.Once
	synced chan struct{}
}

func dropManagedFields(object any) (any, error) {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return nil, err
	}
	accessor.SetManagedFields(nil)
	return object, nil
}

// Transformer lets the reflector apply it while a streaming list comes in.
func (s *syncedStore) Transformer() cache.TransformFunc { return dropManagedFields }

func (s *syncedStore) Add(object any) error {
	if _, err := dropManagedFields(object); err != nil {
		return err
	}
	return s.Store.Add(object)
}

func (s *syncedStore) Update(object any) error {
	if _, err := dropManagedFields(object); err != nil {
		return err
	}
	return s.Store.Update(object)
}

func (s *syncedStore) Replace(list []any, resourceVersion string) error {
	for _, object := range list {
		if _, err := dropManagedFields(object); err != nil {
			return err
		}
	}
	err := s.Store.Replace(list, resourceVersion)
	s.once.Do(func() { close(s.synced) })
	return err
}

// processorTime is what this process has used so far.
func processorTime() (time.Duration, error) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0, err
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), nil
}

func memoryKiB(field string) (int, error) {
	file, err := os.Open("/proc/self/status")
	if err != nil {
		return 0, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) > 1 && words[0] == field+":" {
			return strconv.Atoi(words[1])
		}
	}
	return 0, fmt.Errorf("%s is not in /proc/self/status", field)
}
