package main

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"sync/atomic"
)

const spreadPage = "<p>A small page</p>\n"

// spread N [CERTIFICATE KEY]: a small page; N goroutines accept from one listener, each with a goroutine for every connection; with a certificate,
// over TLS. Prints "port P"; on SIGINT how many requests the connections of each served, "served 10 20 …", and ends.
func spread() {
	served := make([]atomic.Int64, arg(1))
	interrupt := make(chan os.Signal, 1)
	signal.Notify(interrupt, os.Interrupt)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	if len(os.Args) > 4 {
		certificate, err := tls.LoadX509KeyPair(os.Args[3], os.Args[4])
		if err != nil {
			log.Fatal(err)
		}
		listener = tls.NewListener(listener, &tls.Config{Certificates: []tls.Certificate{certificate}})
	}
	for i := range served {
		go acceptAll(listener, &served[i])
	}
	fmt.Printf("port %d\n", port)
	<-interrupt
	fmt.Print("served")
	for i := range served {
		fmt.Print(" ", served[i].Load())
	}
	fmt.Println()
}

func acceptAll(listener net.Listener, served *atomic.Int64) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go answerAll(conn, served)
	}
}

// answerAll reads heads of requests, up to their empty lines, and looks at nothing in them.
func answerAll(conn net.Conn, served *atomic.Int64) {
	defer conn.Close()
	reply := []byte(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(spreadPage), spreadPage))
	reader := bufio.NewReaderSize(conn, 8192)
	for {
		line, err := reader.ReadSlice('\n')
		if err != nil {
			return
		}
		if len(line) > 2 {
			continue
		}
		served.Add(1)
		if _, err := conn.Write(reply); err != nil {
			return
		}
	}
}
