package main

import (
	"os"
	"runtime"
	"sync/atomic"
	"time"
)

// compute works for so long, some 0.1 ms at a time, and counts that.
func compute(d time.Duration) int64 {
	rounds := int64(0)
	for till := time.Now().Add(d); ; {
		for i := 0; i < 200000; i++ {
			work = i
		}
		rounds++
		if time.Now().After(till) {
			return rounds
		}
	}
}

var work int

// fair KIND BUSY: what 100 ping-pong pairs keep of their rate beside BUSY others, and how evenly those share the rest, over 2 s.
// KIND 1 computes for ever, 2 computes 5 ms for each message, 3 yields every 5 ms.
func fair() {
	kind, count := arg(1), arg(2)
	var trips atomic.Int64
	for p := 0; p < 100; p++ {
		ping, pong := make(chan int), make(chan int)
		go echo(ping, pong)
		go func() {
			for {
				for i := 0; i < 100; i++ {
					ping <- i
					<-pong
				}
				trips.Add(100)
			}
		}()
	}
	rate := func(d time.Duration) float64 {
		before, start := trips.Load(), time.Now()
		time.Sleep(d)
		return float64(trips.Load()-before) / time.Since(start).Seconds()
	}
	rate(200 * time.Millisecond)
	alone := rate(time.Second)
	done := make([]atomic.Int64, count)
	for b := 0; b < count; b++ {
		inbox := make(chan bool)
		if kind == 2 {
			go func() {
				for {
					inbox <- true
				}
			}()
		}
		go func(done *atomic.Int64) {
			for {
				switch kind {
				case 1:
					done.Add(compute(100 * time.Microsecond))
				case 2:
					<-inbox
					done.Add(compute(5 * time.Millisecond))
				default:
					done.Add(compute(5 * time.Millisecond))
					runtime.Gosched()
				}
			}
		}(&done[b])
	}
	report("kept", rate(2*time.Second)/alone, "of the pairs' rate")
	least, most := done[0].Load(), int64(0)
	for i := range done {
		n := done[i].Load()
		if n < least {
			least = n
		}
		if n > most {
			most = n
		}
	}
	report("spread", float64(most)/float64(least), "most / least")
	os.Exit(0)
}

// ready KIND: the longest time between two turns of any of 1,000 goroutines that only yield, over 2 s, beside one that
// KIND 1 computes for ever, 2 starts goroutines in a loop; and how many goroutines there are at most.
func ready() {
	kind := arg(1)
	gaps := make(chan time.Duration, 1000)
	for i := 0; i < 1000; i++ {
		go func() {
			start, worst := time.Now(), time.Duration(0)
			for last := start; last.Sub(start) < 2*time.Second; {
				runtime.Gosched()
				now := time.Now()
				if gap := now.Sub(last); gap > worst {
					worst = gap
				}
				last = now
			}
			gaps <- worst
		}()
	}
	go func() {
		for {
			if kind == 2 {
				go func() {}()
			}
		}
	}()
	most, worst := 0, time.Duration(0)
	for start := time.Now(); time.Since(start) < 2*time.Second; {
		time.Sleep(10 * time.Millisecond)
		if n := runtime.NumGoroutine(); n > most {
			most = n
		}
	}
	for i := 0; i < 1000; i++ {
		if gap := <-gaps; gap > worst {
			worst = gap
		}
	}
	report("gap", worst.Seconds()*1e3, "ms")
	report("processes", float64(most), "at most")
	os.Exit(0)
}
