"""The study's servers: MySQL as MariaDB under mysqlslap, and lighttpd under ab in the place of Cherokee, which no distribution packages any more."""

import getpass
import shlex
import socket
from pathlib import Path

from marelab.scenarios import Made, Scenario, file

CLIENTS, EACH = 50, 36  # the study's: clients at a time, and operations of each

# A video rental as the study's sample database: tables, a view, a trigger. mysqlslap creates it by one connection, and drops it in the end.
CREATE = """
create table country(id int primary key, name varchar(50));
create table city(id int primary key, name varchar(50), country int, key(country));
create table address(id int primary key, street varchar(80), city int, phone varchar(20), key(city));
create table store(id int primary key, address int);
create table staff(id int primary key, name varchar(50), store int, address int);
create table customer(id int auto_increment primary key, store int, name varchar(50), email varchar(60), address int, active int default 1, key(name));
create table language(id int primary key, name varchar(20));
create table category(id int primary key, name varchar(25));
create table actor(id int primary key, name varchar(50), key(name));
create table film(id int primary key, title varchar(120), description text, year int, language int, rate decimal(4,2), length int, key(title));
create table film_actor(actor int, film int, primary key(actor, film), key(film));
create table film_category(film int, category int, primary key(film, category));
create table inventory(id int primary key, film int, store int, key(film));
create table rental(id int auto_increment primary key, day datetime, inventory int, customer int, back datetime, staff int, key(customer), key(inventory));
create table payment(id int auto_increment primary key, customer int, rental int, amount decimal(5,2), day datetime, key(customer));
create table changes(id int auto_increment primary key, what varchar(20), customer int);
create view films as select f.id, f.title, f.length, l.name language, c.name category from film f join language l on l.id = f.language
  join film_category fc on fc.film = f.id join category c on c.id = fc.category;
create trigger renamed after update on customer for each row insert into changes(what, customer) values ('customer', new.id);
insert into country select seq, concat('country', seq) from seq_1_to_109;
insert into city select seq, concat('city', seq), 1 + seq % 109 from seq_1_to_600;
insert into address select seq, concat(seq, ' street ', seq % 37), 1 + seq % 600, seq * 7919 from seq_1_to_603;
insert into store select seq, seq from seq_1_to_2;
insert into staff select seq, concat('staff', seq), seq, seq from seq_1_to_2;
insert into customer(store, name, email, address) select 1 + seq % 2, concat('customer', seq), concat('c', seq, '@example.org'), seq from seq_1_to_599;
insert into language select seq, concat('language', seq) from seq_1_to_6;
insert into category select seq, concat('category', seq) from seq_1_to_16;
insert into actor select seq, concat('actor', seq % 50, ' ', seq) from seq_1_to_200;
insert into film select seq, concat('film ', seq * 31 % 997, ' ', seq), repeat(concat('about ', seq % 89, ' '), 12), 2006, 1 + seq % 6, 0.99 + seq % 5, 46 + seq % 140 from seq_1_to_1000;
insert into film_actor select 1 + seq % 200, 1 + seq % 999 from seq_1_to_5400 group by 1, 2;
insert into film_category select seq, 1 + seq % 16 from seq_1_to_1000;
insert into inventory select seq, 1 + seq % 1000, 1 + seq % 2 from seq_1_to_4581;
insert into rental(day, inventory, customer, back, staff) select '2005-05-24' + interval seq minute, 1 + seq % 4581, 1 + seq % 599, '2005-06-01', 1 + seq % 2 from seq_1_to_8000;
insert into payment(customer, rental, amount, day) select 1 + seq % 599, seq, seq % 9 + 0.99, '2005-05-24' + interval seq minute from seq_1_to_8000;
"""

# Nine operations, made four times with other numbers: queries, changes, removals.
OPERATIONS = """
select title, category from films where title like 'film {a}%' order by title limit 20;
select c.name, sum(p.amount) paid from customer c join payment p on p.customer = c.id where c.id between {a} and {a} + 20 group by c.id order by paid desc;
select a.name, count(*) n from actor a join film_actor f on f.actor = a.id where a.name like 'actor{d}%' group by a.id order by n desc limit 10;
insert into rental(day, inventory, customer, staff) values (now(), {a}, {b}, 1);
update customer set email = concat('new', {b}, '@example.org') where id = {b};
select c.name, r.day from rental r join customer c on c.id = r.customer where r.inventory = {a} and r.back is null limit 10;
insert into payment(customer, rental, amount, day) values ({b}, {a}, 4.99, now());
select category, avg(length) from films group by category;
delete from rental where customer = {b} and back is null limit 1;
"""


def mysql(place: Path) -> Made:
    data, at = place / "data", place / "s"
    data.mkdir()
    (place / "create.sql").write_text(" ".join(CREATE.split("\n")).strip())
    rounds = [OPERATIONS.format(a=1 + 131 * k, b=1 + 97 * k, d=k) for k in range(EACH // 9)]
    (place / "operations.sql").write_text(" ".join("".join(rounds).split("\n")).strip())
    server = [file("mariadbd"), "--no-defaults", f"--user={getpass.getuser()}", f"--datadir={data}", "--skip-grant-tables", "--skip-networking",
              f"--socket={at}", f"--pid-file={place}/pid", "--innodb-buffer-pool-size=16M", "--lc-messages-dir=/usr/share/mysql", "--skip-log-bin"]
    slap = [file("mariadb-slap"), "--no-defaults", f"--socket={at}", "--user=root", f"--create={place}/create.sql", f"--query={place}/operations.sql",
            "--delimiter=;", "--create-schema=rental", f"--concurrency={CLIENTS}", f"--number-of-queries={CLIENTS * EACH}", "--iterations=1"]
    ready = [file("mariadb-admin"), "--no-defaults", f"--socket={at}", "--user=root", "ping"]
    return Made(server, shlex.join(slap), shlex.join(ready))


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def cherokee(place: Path) -> Made:
    pages, port = place / "www", free_port()
    pages.mkdir()
    rows = "".join(f"<tr><td>server {i}</td><td><input name='port{i}' value='{8000 + i}'></td><td>running</td></tr>\n" for i in range(80))
    (pages / "index.html").write_text(f"<html><head><title>Administration</title></head><body><table>{rows}</table></body></html>\n")
    (place / "conf").write_text(f'server.document-root = "{pages}"\nserver.port = {port}\nserver.bind = "127.0.0.1"\nindex-file.names = ("index.html")\n'
                                f'server.errorlog = "{place}/log"\nmimetype.assign = (".html" => "text/html")\nserver.max-keep-alive-requests = 0\n')
    load = [file("ab"), "-q", "-n", "1000", "-c", "20", f"http://127.0.0.1:{port}/"]
    return Made([file("lighttpd"), "-D", "-f", str(place / "conf")], shlex.join(load))


SCENARIOS = [
    Scenario("mysql", "MariaDB", f"a video rental is created, asked and changed by mysqlslap's {CLIENTS} clients, {EACH} operations each, and dropped",
             ("mariadbd", "mariadb-slap", "mariadb-admin"), mysql),
    Scenario("cherokee", "lighttpd", "ab: 20 clients, 50 requests each, of a page of administration; in the place of Cherokee", ("lighttpd", "ab"), cherokee),
]
