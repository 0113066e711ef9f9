use super::*;

/// Receives for a rank until it is dropped.
struct Receiving(Arc<std::sync::atomic::AtomicBool>, Option<JoinHandle<()>>);

impl Receiving {
    fn of(lines: &Arc<Lines>) -> Receiving {
        let over = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let (lines, stop) = (lines.clone(), over.clone());
        let receive = move || {
            while !stop.load(std::sync::atomic::Ordering::SeqCst) {
                assert_eq!(lines.receive(Duration::from_millis(20)).unwrap(), None, "lines are no messages of others");
            }
        };
        Receiving(over, Some(std::thread::spawn(receive)))
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        self.0.store(true, std::sync::atomic::Ordering::SeqCst);
        self.1.take().unwrap().join().unwrap();
    }
}

#[test]
fn lines_of_all_ranks_come_whole_and_in_the_order_of_each() {
    let ranks: Vec<Arc<Lines>> = haul_core::team::threads(3).into_iter().map(Lines::new).collect();
    let printed: Arc<Mutex<Vec<u8>>> = Arc::default();
    let to = printed.clone();
    let print: Arc<Print> = Arc::new(move |stream, lines| {
        assert!(stream == Stream::Out && lines.ends_with(b"\n"));
        lock(&to).extend_from_slice(lines);
    });
    ranks[0].print_by(&print);
    let receiving: Vec<Receiving> = ranks.iter().map(Receiving::of).collect();
    std::thread::scope(|scope| {
        for rank in &ranks[1..] {
            scope.spawn(move || {
                for n in 0..20_000 {
                    let line = format!("{} {n} {}\n", rank.rank(), "x".repeat(n % 100));
                    // In pieces, as a buffer is cut.
                    let (one, two) = line.as_bytes().split_at(n % line.len());
                    rank.write(Stream::Out, one).unwrap();
                    rank.write(Stream::Out, two).unwrap();
                }
                rank.write(Stream::Out, format!("{} end\n{}", rank.rank(), "y".repeat(300_000)).as_bytes()).unwrap();
                rank.write(Stream::Out, b"\n").unwrap();
                rank.flush(Duration::from_secs(60));
            });
        }
    });
    ranks[0].flush(Duration::from_secs(60));
    let text = String::from_utf8(lock(&printed).clone()).unwrap();
    for rank in ["1", "2"] {
        let own: Vec<&str> = text.lines().filter(|line| line.split(' ').next() == Some(rank)).collect();
        assert_eq!(own.len(), 20_001);
        assert!(own.iter().take(20_000).enumerate().all(|(n, line)| line.split(' ').nth(1) == Some(&n.to_string())));
    }
    assert_eq!(text.lines().filter(|line| line.len() == 300_000).count(), 2);
    drop(receiving);
    std::thread::scope(|scope| ranks.iter().for_each(|rank| drop(scope.spawn(|| rank.close()))));
}

#[test]
fn a_rank_holds_little_and_prints_itself_what_rank_0_does_not_take() {
    static OWN: Mutex<Vec<u8>> = Mutex::new(Vec::new());
    let own: fn(Stream, &[u8]) -> io::Result<()> = |_, lines| {
        lock(&OWN).extend_from_slice(lines);
        Ok(())
    };
    let ranks: Vec<Arc<Lines>> = haul_core::team::threads(2).into_iter().map(|end| Lines::beside(end, own)).collect();
    for n in 0..10_000 {
        ranks[1].write(Stream::Out, format!("line {n} of what nobody reads\n").as_bytes()).unwrap();
    }
    let spool = lock(&ranks[1].spool);
    assert!(spool.sent_bytes <= WINDOW && spool.waiting.memory() <= SPOOL && !spool.alone);
    assert!(spool.waiting.len() > 5);
    drop(spool);
    ranks[1].flush(Duration::from_millis(50));
    let spool = lock(&ranks[1].spool);
    assert!(spool.alone && spool.is_done());
    let text = String::from_utf8(lock(&OWN).clone()).unwrap();
    assert!(text.lines().count() == 10_000 && text.lines().enumerate().all(|(n, line)| line.starts_with(&format!("line {n} "))));
}
