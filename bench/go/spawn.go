package main

import (
	"fmt"
	"os"
	"sync"
	"time"
)

// spawn COUNT: empty goroutines, waited for in batches of 1000.
func spawn() {
	const batch = 1000
	count := arg(1)
	var all sync.WaitGroup
	run := func(count int) {
		for i := 0; i < count/batch; i++ {
			all.Add(batch)
			for j := 0; j < batch; j++ {
				go all.Done()
			}
			all.Wait()
		}
	}
	run(count / 20)
	start := time.Now()
	run(count)
	report("spawn", time.Since(start).Seconds()*1e6/float64(count/batch*batch), "us")
}

// residentKiB reads this OS process's resident memory.
func residentKiB() float64 {
	text, err := os.ReadFile("/proc/self/smaps_rollup")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var kib float64
	for i := 0; i+4 < len(text); i++ {
		if string(text[i:i+4]) == "Rss:" {
			fmt.Sscanf(string(text[i+4:]), "%f", &kib)
			break
		}
	}
	return kib
}

// waiting COUNT: goroutines that each wait on a channel of their own; then every one gets a message.
func waiting() {
	count := arg(1)
	before := residentKiB()
	start := time.Now()
	channels := make([]chan int, count)
	var all sync.WaitGroup
	all.Add(count)
	for i := range channels {
		c := make(chan int)
		channels[i] = c
		go func() {
			<-c
			all.Done()
		}()
	}
	// the last to be started is parked when the first have long been
	created := time.Since(start)
	time.Sleep(200 * time.Millisecond)
	after := residentKiB()
	start = time.Now()
	for i, c := range channels {
		c <- i
	}
	all.Wait()
	woken := time.Since(start)
	report("create", created.Seconds(), "s")
	report("wake", woken.Seconds(), "s")
	report("both", (created + woken).Seconds(), "s")
	report("memory", (after-before)/float64(count), "KiB each")
}
