//! Reports of runs that nobody measured: what they say, and that nothing in them can break a page or a terminal.

use haul_bench::report;

mod made_up;

#[test]
fn dump() {
    let dir = std::env::var("DUMP").unwrap_or("/tmp/h/report5-out".into());
    std::fs::create_dir_all(&dir).unwrap();
    for (name, made) in made_up::all() {
        std::fs::write(format!("{dir}/{name}.html"), report::html(std::slice::from_ref(&made))).unwrap();
        let text = format!("{}\n=====200\n{}\n====plot\n{}\n{}", report::text(std::slice::from_ref(&made), 80), report::text(std::slice::from_ref(&made), 200), report::plots(std::slice::from_ref(&made), 80, true), report::plots(std::slice::from_ref(&made), 80, false));
        std::fs::write(format!("{dir}/{name}.txt"), text).unwrap();
    }
    let two = [made_up::compare(), made_up::compare_later(), made_up::net()];
    std::fs::write(format!("{dir}/two.html"), report::html(&two)).unwrap();
    std::fs::write(format!("{dir}/two.txt"), report::text(&two, 80)).unwrap();
}
