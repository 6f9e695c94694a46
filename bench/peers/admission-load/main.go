// admission-load posts one fixed body over kept-alive TLS connections (HTTP/1.1) and prints what it saw as JSON.
//
// Closed loop (-rate 0): every connection sends its next request as soon as the last answer is in: throughput at
// saturation. Open loop (-rate N): requests fall due at fixed intervals whether or not earlier ones were answered,
// and latency counts from the moment a request was due, so a server that stalls is not spared the queue behind it.
//
// It writes prepared bytes and reads no more of an answer than it must, to stay cheap next to the server.
package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

type options struct {
	address, path, bodyFile, expect string
	connections                     int
	rate                            float64
	warmUp, duration                time.Duration
}

type report struct {
	Requests      int     `json:"requests"`
	Failures      int     `json:"failures"`
	FirstFailure  string  `json:"firstFailure,omitempty"`
	PerSecond     float64 `json:"perSecond"`
	P50Ms         float64 `json:"p50Ms"`
	P90Ms         float64 `json:"p90Ms"`
	P99Ms         float64 `json:"p99Ms"`
	MaxMs         float64 `json:"maxMs"`
	GeneratorCPU  float64 `json:"generatorCpu"`
	LatenessP99Ms float64 `json:"latenessP99Ms"`
}

// One connection's share of the results; nothing is shared while the clock runs.
type worker struct {
	connection *tls.Conn
	reader     *bufio.Reader
	latencies  []time.Duration
	lateness   []time.Duration
	failures   int
	failure    string
}

func main() {
	var o options
	flag.StringVar(&o.address, "address", "", "host:port")
	flag.StringVar(&o.path, "path", "/mutate?timeout=10s", "path and query")
	flag.StringVar(&o.bodyFile, "body", "", "file with the body")
	flag.StringVar(&o.expect, "expect", `"allowed":true`, "text that every answer must contain")
	flag.IntVar(&o.connections, "connections", 64, "connections")
	flag.Float64Var(&o.rate, "rate", 0, "requests per second, 0 = as fast as answers come")
	flag.DurationVar(&o.warmUp, "warm-up", time.Second, "time before counting starts")
	flag.DurationVar(&o.duration, "duration", 5*time.Second, "time that counts")
	flag.Parse()
	debug.SetGCPercent(1000)
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(o options) error {
	body, err := os.ReadFile(o.bodyFile)
	if err != nil {
		return err
	}
	request := fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: admission-load\r\nContent-Type: application/json\r\n"+
		"Accept: application/json\r\nContent-Length: %d\r\n\r\n%s", o.path, o.address, len(body), body)
	workers := make([]*worker, o.connections)
	for i := range workers {
		connection, err := tls.Dial("tcp", o.address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
		if err != nil {
			return err
		}
		defer connection.Close()
		workers[i] = &worker{connection: connection, reader: bufio.NewReaderSize(connection, 32*1024)}
	}
	begin := time.Now()
	count, end := begin.Add(o.warmUp), begin.Add(o.warmUp+o.duration)
	cpuAtCount := make(chan time.Duration, 1)
	time.AfterFunc(o.warmUp, func() { cpuAtCount <- cpuTime() })

	var group sync.WaitGroup
	var dropped atomic.Int64
	if o.rate > 0 {
		openLoop(workers, openPlan{request, o, begin, count, end, &dropped}, &group)
	} else {
		for _, w := range workers {
			group.Go(func() { w.closedLoop(request, o.expect, count, end) })
		}
	}
	group.Wait()
	if dropped.Load() > 0 {
		return fmt.Errorf("%d requests fell due while 65536 others were waiting: the rate is too high", dropped.Load())
	}
	return summarise(workers, o, cpuTime()-<-cpuAtCount)
}

func (w *worker) closedLoop(request []byte, expect string, count, end time.Time) {
	for {
		start := time.Now()
		if start.After(end) {
			return
		}
		err := w.exchange(request, expect)
		if done := time.Now(); start.After(count) {
			w.latencies = append(w.latencies, done.Sub(start))
		}
		if err != nil {
			w.failures, w.failure = w.failures+1, err.Error()
			return
		}
	}
}

type openPlan struct {
	request           []byte
	options           options
	begin, count, end time.Time
	dropped           *atomic.Int64
}

// One thread of its own releases requests on time: the runtime's timers are only good to a millisecond.
func openLoop(workers []*worker, plan openPlan, group *sync.WaitGroup) {
	due := make(chan time.Time, 1<<16)
	for _, w := range workers {
		group.Go(func() {
			for at := range due {
				started := time.Now()
				err := w.exchange(plan.request, plan.options.expect)
				if at.After(plan.count) {
					w.latencies = append(w.latencies, time.Since(at))
					w.lateness = append(w.lateness, started.Sub(at))
				}
				if err != nil {
					w.failures, w.failure = w.failures+1, err.Error()
					return
				}
			}
		})
	}
	group.Go(func() {
		runtime.LockOSThread()
		syscall.RawSyscall(syscall.SYS_PRCTL, 29 /* PR_SET_TIMERSLACK */, 1, 0)
		interval := time.Duration(float64(time.Second) / plan.options.rate)
		for at := plan.begin; at.Before(plan.end); at = at.Add(interval) {
			if wait := time.Until(at); wait > 0 {
				spec := syscall.NsecToTimespec(wait.Nanoseconds())
				_ = syscall.Nanosleep(&spec, nil)
			}
			select {
			case due <- at:
			default:
				plan.dropped.Add(1)
			}
		}
		close(due)
	})
}

var contentLength = []byte("content-length:")

func (w *worker) exchange(request []byte, expect string) error {
	if _, err := w.connection.Write(request); err != nil {
		return err
	}
	status, err := w.reader.ReadSlice('\n')
	if err != nil {
		return err
	}
	ok := bytes.HasPrefix(status, []byte("HTTP/1.1 200"))
	length := -1
	for {
		line, err := w.reader.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(line) <= 2 {
			break
		}
		if len(line) > len(contentLength) && bytes.EqualFold(line[:len(contentLength)], contentLength) {
			length, err = strconv.Atoi(string(bytes.TrimSpace(line[len(contentLength):])))
			if err != nil {
				return err
			}
		}
	}
	if length < 0 {
		return fmt.Errorf("answer without content-length")
	}
	answer, err := w.reader.Peek(length)
	if err != nil {
		return err
	}
	if !ok || !bytes.Contains(answer, []byte(expect)) {
		return fmt.Errorf("unexpected answer: %.200s", answer)
	}
	_, err = w.reader.Discard(length)
	if err == io.EOF {
		return nil
	}
	return err
}

func summarise(workers []*worker, o options, cpu time.Duration) error {
	var all, late []time.Duration
	result := report{}
	for _, w := range workers {
		all = append(all, w.latencies...)
		late = append(late, w.lateness...)
		result.Failures += w.failures
		if w.failure != "" {
			result.FirstFailure = w.failure
		}
	}
	slices.Sort(all)
	slices.Sort(late)
	result.Requests = len(all)
	result.PerSecond = float64(len(all)) / o.duration.Seconds()
	result.P50Ms, result.P90Ms, result.P99Ms = at(all, 0.5), at(all, 0.9), at(all, 0.99)
	result.MaxMs, result.LatenessP99Ms = at(all, 1), at(late, 0.99)
	result.GeneratorCPU = cpu.Seconds() / o.duration.Seconds()
	return json.NewEncoder(os.Stdout).Encode(result)
}

func at(sorted []time.Duration, quantile float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	index := min(len(sorted)-1, int(quantile*float64(len(sorted))))
	return float64(sorted[index].Microseconds()) / 1000
}

func cpuTime() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
