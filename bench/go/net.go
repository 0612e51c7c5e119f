package main

import (
	"fmt"
	"log"
	"math/rand"
	"net"
	"net/http"
	"os"
	"sort"
	"sync"
	"time"
)

const small = "<!DOCTYPE html><title>small</title><p>A small page, served by mare.</p>\n"

// serve: the page /small of examples/webserver.lua by net/http. Prints "port N"; ends when it is killed.
func serve() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("port %d\n", listener.Addr().(*net.TCPAddr).Port)
	body := []byte(small)
	http.HandleFunc("/small", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if _, err := w.Write(body); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	})
	log.Fatal(http.Serve(listener, nil))
}

// select2 COUNT: one goroutine sends on two channels in turn, another selects.
func select2() {
	a, b, over := make(chan int), make(chan int), make(chan int)
	go func() {
		for n := range over {
			for i := 0; i < n; i++ {
				select {
				case <-a:
				case <-b:
				}
			}
			over <- 0
		}
	}()
	run := func(n int) {
		over <- n
		for i := 0; i < n/2; i++ {
			a <- 1
			b <- 1
		}
		<-over
	}
	run(arg(1) / 10)
	start := time.Now()
	run(arg(1))
	rate("messages", arg(1), start, "messages/s")
}

// sleepers COUNT SECONDS: goroutines that sleep until moments spread over so many seconds; how late they wake, in ms.
func sleepers() {
	count, seconds := arg(1), arg(2)
	late := make([]float64, count)
	start := time.Now().Add(time.Second)
	var over sync.WaitGroup
	over.Add(count)
	for i, place := range rand.Perm(count) {
		due := start.Add(time.Duration(float64(place) / float64(count) * float64(seconds) * float64(time.Second)))
		go func(i int) {
			time.Sleep(time.Until(due))
			late[i] = time.Since(due).Seconds()
			over.Done()
		}(i)
	}
	over.Wait()
	sort.Float64s(late)
	report("woken", float64(count), "sleepers")
	report("late", 1000*late[count/2], "ms")
	report("latest", 1000*late[count-1], "ms")
}
