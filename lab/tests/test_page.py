"""The page of a choice as a reader meets it, in a browser: hover, zoom, a phone's width, numbers; and that it stays small."""

import pytest
from pages import made, stacks

from marelab import plots, sites, units

POINT = "const at = (e, type, x, y) => e.dispatchEvent(new PointerEvent(type, { bubbles: true, clientX: x, clientY: y }));" \
        "const tip = () => document.getElementById('tip');"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    return made(tmp_path_factory.mktemp("page") / "out", stacks(300))


def test_hovering_tells_numbers_with_their_units(page, seen):
    found = seen(page, POINT + """
        const out = {}, line = document.querySelector('[data-key=memory] svg'), box = line.getBoundingClientRect();
        at(line, 'pointermove', box.left + box.width / 2, box.top + 40);
        out.line = tip().innerText; out.shown = !tip().hidden;
        at(line, 'pointerleave', 0, 0); out.gone = tip().hidden;
        at(document.querySelector('[data-key=sites] .box'), 'pointermove', 10, 10); out.flame = tip().innerText;
        at(document.querySelector('[data-key=grid] .cell'), 'pointermove', 10, 10); out.cell = tip().innerText;
        return out;""")
    assert found["shown"] and found["gone"] and all(f"{n}: " in found["line"] for n in ("glibc", "jemalloc", "mimalloc", "asked for and not freed"))
    assert "part of the run: 4" in found["line"] and "MiB" in found["line"]
    assert "allocations: 45\u00a0150, 100\u00a0%" in found["flame"] and "in use at the peak: " in found["flame"]
    assert "blocks of " in found["cell"] and "of all blocks" in found["cell"] and ("Freed after" in found["cell"] or "Never freed" in found["cell"])


def test_a_click_zooms_into_a_function_and_a_drag_into_a_part_of_the_run(page, seen):
    found = seen(page, POINT + """
        const out = {}, all = () => [...document.querySelectorAll('[data-key=sites] .box')], wide = g => g.querySelector('rect').width.baseVal.value;
        const second = all().find(g => g.dataset.node !== '-1' && wide(g) < wide(all()[0]) / 2), node = second.dataset.node;
        out.before = wide(second); out.all = wide(all()[0]);
        second.dispatchEvent(new MouseEvent('click', { bubbles: true }));
        out.after = wide(all().find(g => g.dataset.node === node));
        [...document.querySelectorAll('[data-key=sites] button')].find(b => b.textContent === 'Show all').click();
        out.back = wide(all().find(g => g.dataset.node === node));
        const texts = () => [...document.querySelectorAll('[data-key=memory] svg text')].map(t => t.textContent);
        out.ticks = texts();
        const svg = document.querySelector('[data-key=memory] svg'), box = svg.getBoundingClientRect();
        at(svg, 'pointerdown', box.left + 300, box.top + 50); at(svg, 'pointermove', box.left + 400, box.top + 50); at(svg, 'pointerup', box.left + 400, box.top + 50);
        out.closer = texts();
        [...document.querySelectorAll('[data-key=memory] button')].find(b => b.textContent === 'Whole range').click();
        out.whole = texts();
        return out;""")
    assert found["before"] < found["all"] / 2 < found["after"] == found["all"] and found["back"] == found["before"]
    assert "100\u00a0%" in found["ticks"] and "100\u00a0%" not in found["closer"] and found["whole"] == found["ticks"]


def test_the_allocators_callers_can_stand_on_top_and_functions_be_found(page, seen):
    found = seen(page, """
        const out = {}, labels = () => [...document.querySelectorAll('[data-key=sites] .box text')].map(t => t.textContent);
        const press = word => [...document.querySelectorAll('[data-key=sites] button')].find(b => b.textContent === word).click();
        out.down = labels()[1]; press('who calls the allocator'); out.up = labels();
        press('allocations'); out.title = labels()[0];
        const input = document.querySelector('[data-key=sites] input'); input.value = 'f7 '; input.dispatchEvent(new Event('input'));
        out.hits = document.querySelectorAll('[data-key=sites] .hit').length; out.said = document.querySelector('[data-key=sites] .note').textContent;
        return out;""")
    assert found["down"] == "f0" and found["up"][1] != "f0" and found["title"] == "all allocations"
    assert found["hits"] > 0 and "“f7 ” in their name" in found["said"] and "%" in found["said"]


def test_on_a_phone_nothing_is_wider_than_the_page(page, seen):
    found = seen(page, """return [innerWidth, document.documentElement.scrollWidth,
        ...[...document.querySelectorAll('figure svg')].map(s => s.getBoundingClientRect().right)];""", width=390)
    assert all(x <= found[0] + 1 for x in found[1:]), found


def test_the_script_writes_numbers_as_the_rest_of_the_page(page, seen):
    values = {"count": [0, 7, 999, 1000, 1234567], "size": [0, 1, 1023, 1024, 1536, 10 << 20, 123456789, 1 << 40], "share": [0, 1, 0.5, 0.0001, 0.9999, 0.05, 0.123, 0.9951],
              "seconds": [0, 1e-7, 1.234e-5, 0.0123, 0.9996, 1, 12.345, 123.4]}
    found = seen(page, f"const v = {values}; return Object.fromEntries(Object.keys(v).map(k => [k, v[k].map(mareUnits[k])]));")
    assert found == {k: [units.typeset(getattr(units, k)(x)) for x in v] for k, v in values.items()}


def test_numbers_of_sentences_are_set_in_one_way(page):
    assert "1\u00a0234\u00a0567 bytes" in page.read_text()
    assert units.typeset("65,536 of 1 234 in 3 s, 5 systems; 12,5 %") == "65\u00a0536 of 1\u00a0234 in 3\u00a0s, 5 systems; 12,5\u00a0%"


HOSTILE = "</script><img src=x onerror=alert(1)> (p)"


def test_what_a_program_calls_itself_and_its_functions_is_text(tmp_path, seen):
    found = stacks(30)
    found["names"] = [HOSTILE for _ in found["names"]]
    page = made(tmp_path / "out", found, program=HOSTILE)
    seen_there = seen(page, POINT + """
        at([...document.querySelectorAll('[data-key=sites] .box')].at(-1), 'pointermove', 10, 10);
        return [document.querySelectorAll('img').length, tip().innerText, document.body.innerText];""")
    assert seen_there[0] == 0 and HOSTILE in seen_there[1] and f"Which allocator for '{HOSTILE}'" in seen_there[2]
    assert "<img" not in page.read_text()


# ---- it stays small ----

def check(found: dict, allocations: int, size: int, folded: int) -> None:
    """Each node comes after its parent and is not larger; at most one beside the others is folded; all together are the whole."""
    for way in ("up", "down"):
        nodes = found[way]["nodes"]
        assert len(nodes) <= 2 * sites.MOST and found[way]["folded"] > folded
        below = {}
        for i, n in enumerate(nodes):
            assert n[1] < i
            below.setdefault(n[1], []).append(n)
        assert [sum(n[2 + k] for n in below[-1]) for k in range(3)] == found["total"] == [allocations, size, allocations]
        for i, several in below.items():
            assert i < 0 or all(sum(n[2 + k] for n in several) <= nodes[i][2 + k] for k in range(3))
            assert sum(n[0] == sites.FOLDED for n in several) <= 1


def test_a_hundred_thousand_places_are_folded_and_no_sum_is_lost(tmp_path, seen):
    found = stacks(100_000)
    check(found, 5_000_050_000, 500_005_000_000, folded=1000)
    page = made(tmp_path / "out", found)
    assert page.stat().st_size < 800_000 and "the smallest boxes are folded into one" in page.read_text()
    assert seen(page, "return document.querySelectorAll('[data-key=sites] .box').length;") > 10


def test_deep_stacks_make_no_more_nodes_than_fit_into_memory(monkeypatch):
    """Some 100,000 nodes would be made without a limit; the smallest stacks are folded, and no sum is lost."""
    made_nodes, kept = [], sites.kept
    monkeypatch.setattr(sites, "MADE", 5000)
    monkeypatch.setattr(sites, "kept", lambda name, *rest: made_nodes.append(len(name)) or kept(name, *rest))
    check(stacks(2000, depth=60), 2_001_000, 200_100_000, folded=100)
    assert len(made_nodes) == 2 and all(5000 < n <= 2 * 5000 + 1 for n in made_nodes)


def test_any_number_of_sizes_makes_a_small_figure():
    few, many = plots.sizes(list(range(1, 500)), [1] * 499), plots.sizes(list(range(1, 200_000)), [1] * 199_999)
    assert len(many) < 300_000 and len(few) < 200_000
