// Command load pushes or pulls blobs over the OCI Distribution API and prints one JSON line with the time taken.
//
// It is the client side of the registry benchmark: the same program, with the same number of connections, drives
// our server and the Go peer. Content is derived from a seed, so that a pull can name what a push left behind.
package main

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

type options struct {
	base       string
	repository string
	token      string
	mode       string
	count      int
	size       int
	parallel   int
	seed       uint64
}

func main() {
	var o options
	flag.StringVar(&o.base, "url", "http://127.0.0.1:5000", "registry to talk to")
	flag.StringVar(&o.repository, "repository", "bench/blobs", "repository name")
	flag.StringVar(&o.mode, "mode", "push", "push or pull")
	flag.IntVar(&o.count, "count", 16, "number of blobs")
	flag.IntVar(&o.size, "size", 64<<20, "bytes per blob")
	flag.IntVar(&o.parallel, "parallel", 4, "transfers at a time")
	flag.Uint64Var(&o.seed, "seed", 1, "content seed")
	flag.Parse()
	o.token = os.Getenv("LOAD_TOKEN") // not a flag: argv is readable by everybody
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

func run(o options) error {
	blobs := newContent(o)
	// Whose certificate it is does not matter here: both servers have the same one.
	tlsConfig := &tls.Config{InsecureSkipVerify: true}
	transport := &http.Transport{TLSClientConfig: tlsConfig, MaxIdleConnsPerHost: o.parallel, MaxConnsPerHost: o.parallel, WriteBufferSize: 256 << 10, ReadBufferSize: 256 << 10}
	client := &http.Client{Transport: transport}
	one := push
	if o.mode == "pull" {
		one = pull
	}
	var next atomic.Int64
	var failed atomic.Pointer[error]
	var workers sync.WaitGroup
	started := time.Now()
	for range o.parallel {
		workers.Go(func() {
			for failed.Load() == nil {
				index := int(next.Add(1)) - 1
				if index >= o.count {
					return
				}
				if err := one(client, o, blobs, index); err != nil {
					failed.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	workers.Wait()
	took := time.Since(started)
	if err := failed.Load(); err != nil {
		return *err
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{
		"mode": o.mode, "count": o.count, "size": o.size, "seconds": took.Seconds(),
		"mibPerSecond":   float64(o.count) * float64(o.size) / (1 << 20) / took.Seconds(),
		"blobsPerSecond": float64(o.count) / took.Seconds(),
	})
}

// content is one random body shared by all blobs; only the first eight bytes, the blob's number, differ.
type content struct {
	body    []byte
	digests []string
}

func newContent(o options) *content {
	c := &content{body: make([]byte, o.size), digests: make([]string, o.count)}
	source := rand.NewChaCha8([32]byte{byte(o.seed), byte(o.seed >> 8), byte(o.seed >> 16), byte(o.seed >> 24)})
	_, _ = source.Read(c.body)
	for index := range c.digests {
		hash := sha256.New()
		_, _ = io.Copy(hash, c.reader(index))
		c.digests[index] = "sha256:" + hex.EncodeToString(hash.Sum(nil))
	}
	return c
}

func (c *content) reader(index int) io.Reader {
	head := make([]byte, 8)
	binary.BigEndian.PutUint64(head, uint64(index))
	return io.MultiReader(bytes.NewReader(head), bytes.NewReader(c.body[8:]))
}

func push(client *http.Client, o options, c *content, index int) error {
	start, err := exchange(client, o, http.MethodPost, o.base+"/v2/"+o.repository+"/blobs/uploads/", nil, 0, http.StatusAccepted)
	if err != nil {
		return err
	}
	location, err := start.Request.URL.Parse(start.Header.Get("Location"))
	if err != nil {
		return err
	}
	query := location.Query()
	query.Set("digest", c.digests[index])
	location.RawQuery = query.Encode()
	_, err = exchange(client, o, http.MethodPut, location.String(), c.reader(index), int64(o.size), http.StatusCreated)
	return err
}

func pull(client *http.Client, o options, c *content, index int) error {
	response, err := exchange(client, o, http.MethodGet, o.base+"/v2/"+o.repository+"/blobs/"+c.digests[index], nil, 0, http.StatusOK)
	if err != nil {
		return err
	}
	if response.ContentLength != int64(o.size) {
		return fmt.Errorf("blob %d: %d bytes announced, %d wanted", index, response.ContentLength, o.size)
	}
	return nil
}

var buffers = sync.Pool{New: func() any { b := make([]byte, 256<<10); return &b }}

// exchange sends one request and reads the whole answer away, so that the connection is free again.
func exchange(client *http.Client, o options, method, address string, body io.Reader, length int64, want int) (*http.Response, error) {
	if _, err := url.Parse(address); err != nil {
		return nil, err
	}
	request, err := http.NewRequest(method, address, body)
	if err != nil {
		return nil, err
	}
	request.ContentLength = length
	if o.token != "" {
		request.Header.Set("Authorization", "Bearer "+o.token)
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	read, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{response.Body}, *buffer)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != want {
		return nil, fmt.Errorf("%s %s: status %d", method, address, response.StatusCode)
	}
	if method == http.MethodGet && read != response.ContentLength {
		return nil, fmt.Errorf("%s: short answer, %d bytes", address, read)
	}
	return response, nil
}
