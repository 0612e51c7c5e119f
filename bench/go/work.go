package main

import (
	"fmt"
	"os"
	"sync"
	"time"
)

// spin is a unit of work the compiler can't remove: n steps of a linear congruential generator.
//
//go:noinline
func spin(n int) uint64 {
	x := uint64(n) + 1
	for i := 0; i < n; i++ {
		x = (x*1664525 + 1013904223) & 0x7fffffff
	}
	return x
}

// tasks calibrate | tasks WORKERS COUNT STEPS: a master hands out COUNT tasks of STEPS steps over one channel.
func tasks() {
	if len(os.Args) == 3 && os.Args[2] == "calibrate" {
		calibrate()
		return
	}
	workers, count, steps := arg(1), arg(2), arg(3)
	jobs, results := make(chan int), make(chan uint64)
	for i := 0; i < workers; i++ {
		go func() {
			for range jobs {
				results <- spin(steps)
			}
		}()
	}
	run := func(count int) {
		go func() {
			for i := 0; i < count; i++ {
				jobs <- i
			}
		}()
		for i := 0; i < count; i++ {
			<-results
		}
	}
	run(count / 20)
	start := time.Now()
	run(count)
	rate("tasks", count, start, "tasks/s")
}

// calibrate says how many steps take 20 µs, the best of a few tries.
func calibrate() {
	const n = 1000000
	best := time.Hour
	for i := 0; i < 7; i++ {
		start := time.Now()
		spin(n)
		if d := time.Since(start); d < best {
			best = d
		}
	}
	fmt.Printf("steps %d steps\n", int(20e-6/best.Seconds()*n))
}

func fib(n int) int {
	if n < 2 {
		return n
	}
	return fib(n-1) + fib(n-2)
}

// fanout TASKS N: TASKS goroutines compute fib(N), the main one waits for all.
func fanout() {
	count, n := arg(1), arg(2)
	run := func() {
		var all sync.WaitGroup
		results := make([]int, count)
		for i := 0; i < count; i++ {
			all.Add(1)
			go func(i int) {
				defer all.Done()
				results[i] = fib(n)
			}(i)
		}
		all.Wait()
	}
	start := time.Now()
	run()
	rate("tasks", count, start, "tasks/s")
}

// ticker: how many of 100 ticks, 10 ms apart, happen within 2 s beside a loop that never gives way.
func ticker() {
	go func() {
		for x := 0; ; x++ {
			sink = x
		}
	}()
	start, late := time.Now(), time.Duration(0)
	ticks := 0
	for ticks < 100 {
		before := time.Now()
		time.Sleep(10 * time.Millisecond)
		if time.Since(start) > 2*time.Second {
			break
		}
		if d := time.Since(before) - 10*time.Millisecond; d > late {
			late = d
		}
		ticks++
	}
	report("ticks", float64(ticks), "of 100")
	report("latest", late.Seconds()*1e3, "ms")
	os.Exit(0)
}

var sink int
