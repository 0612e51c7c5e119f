package main

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// dict OP PROCESSES KEYS COUNT: operations on one sync.Map by several goroutines, KEYS strings in turn. OP 1: add to a counter, 2: load, 3: store.
func dict() {
	op, processes, keys, count := arg(1), arg(2), arg(3), arg(4)
	var table sync.Map
	names := make([]string, keys)
	for i := range names {
		names[i] = fmt.Sprintf("key %d", i)
		table.Store(names[i], new(atomic.Int64))
	}
	works := []func(n int){
		func(n int) {
			for i := 0; i < n; i++ {
				v, _ := table.Load(names[i%keys])
				v.(*atomic.Int64).Add(1)
			}
		},
		func(n int) {
			for i := 0; i < n; i++ {
				table.Load(names[i%keys])
			}
		},
		func(n int) {
			for i := 0; i < n; i++ {
				table.Store(names[i%keys], i)
			}
		},
	}
	run := func(total int) {
		var all sync.WaitGroup
		for i := 0; i < processes; i++ {
			all.Add(1)
			go func() {
				works[op-1](total / processes)
				all.Done()
			}()
		}
		all.Wait()
	}
	run(count / 20)
	start := time.Now()
	run(count)
	rate("ops", count, start, "ops/s")
}
