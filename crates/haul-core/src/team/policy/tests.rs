use super::*;

fn until_waiting(policy: &mut Policy) -> Vec<(u32, Word)> {
    let mut told = policy.hungry();
    while let [(victim, Word::Ask)] = told[..] {
        told = policy.refused(victim, None);
    }
    told
}

#[test]
fn at_the_start_all_wait_and_nobody_has_to_say_so() {
    for ranks in [2, 3, 5, 8, 100, 512] {
        let mut above = vec![None; ranks as usize];
        let mut below = vec![0; ranks as usize];
        for rank in 0..ranks {
            let mut policy = Policy::new(rank, ranks);
            while let Some((child, share)) = policy.next_waiting() {
                assert_eq!(above[child as usize].replace((rank, share.parts)), None);
                below[rank as usize] += share.parts;
            }
            assert_eq!(policy.hungry().is_empty(), rank != 0);
        }
        assert!(above[0].is_none() && above[1..].iter().all(Option::is_some), "{above:?}");
        assert_eq!(below[0], ranks as usize - 1);
        for (rank, above) in above.iter().enumerate().skip(1) {
            let (parent, parts) = above.unwrap();
            assert_eq!((parts, parent), (below[rank] + 1, rank as u32 & (rank as u32 - 1)), "{rank}");
        }
    }
}

#[test]
fn an_idle_rank_asks_two_leaves_its_name_and_is_silent() {
    for ranks in [2, 3, 5, 8, 512] {
        let mut policy = Policy::new(1, ranks);
        policy.fed(0, None, true);
        let mut told = policy.hungry();
        assert!(policy.hungry().is_empty(), "it has asked");
        let mut asked = 0;
        while let [(victim, Word::Ask)] = told[..] {
            assert!(victim != 1 && victim < ranks);
            asked += 1;
            told = policy.refused(victim, None);
        }
        assert_eq!(asked, TRIES.min(ranks - 1));
        assert_eq!(told.len(), neighbours(1, ranks).count(), "{ranks} ranks: {told:?}");
        assert!(told.iter().all(|(_, word)| *word == Word::Wait));
        assert!(policy.hungry().is_empty() && policy.refused(0, None).is_empty(), "it waits");
        policy.fed(0, None, true);
        let again = policy.hungry();
        assert!(matches!(again[..], [(_, Word::Ask)]));
    }
    assert!(Policy::new(0, 1).hungry().is_empty(), "alone");
}

#[test]
fn a_name_is_left_again_only_where_it_was_used_up() {
    let mut policy = Policy::new(0, 4);
    assert_eq!(until_waiting(&mut policy), [(1, Word::Wait), (2, Word::Wait)]);
    policy.fed(2, None, true);
    assert_eq!(until_waiting(&mut policy), [(2, Word::Wait)]);
    policy.fed(3, None, true);
    assert!(until_waiting(&mut policy).is_empty(), "rank 3 is no neighbour of it");
}

#[test]
fn who_waits_is_sent_to_the_origin_once() {
    let mut policy = Policy::new(1, 16);
    policy.waits(3);
    policy.waits(9);
    assert!(policy.waits_on(3, Share::ALONE).is_empty(), "nothing is known");
    policy.fed(5, Some(0), true);
    let names = |names| (Stock { names, ..Stock::default() }, Portion { names: names / 2, ..Portion::default() });
    assert_eq!(policy.origin(names(100).0, names(100).1), Some(0));
    assert_eq!(Policy::new(1, 2).origin(names(100).0, names(100).1), None, "no large directory");
    assert_eq!(Policy::new(1, 2).origin(names(9000).0, names(9000).1), Some(1));
    assert_eq!(policy.waits_on(3, Share::ALONE), [(3, Word::Nothing(Some(0))), (9, Word::Nothing(Some(0)))]);
    assert_eq!(policy.next_waiting(), Some((3, Share { parts: 1, among: 2 })));
    assert_eq!(policy.waits_on(9, Share::ALONE), [(9, Word::Nothing(Some(0)))]);
    assert!(matches!(policy.hungry()[..], [(0, Word::Ask)]), "it asks there first");

    let mut idle = Policy::new(3, 16);
    assert!(idle.hungry().is_empty(), "it waits");
    assert_eq!(idle.refused(1, Some(0)), [(0, Word::Wait)]);
    assert!(idle.refused(2, Some(0)).is_empty(), "it has its name");
}

#[test]
fn the_first_gift_is_confirmed_last() {
    let mut policy = Policy::new(1, 4);
    assert!(!policy.fed(3, None, true) && policy.fed(0, None, true) && policy.fed(3, None, true));
    assert_eq!((policy.done(), policy.done()), (Some(3), None));
    assert!(!policy.fed(0, None, true));
    let mut first = Policy::new(0, 4);
    assert!(first.fed(2, None, true), "it waits for nobody else");
    assert_eq!(first.done(), None);
    let mut lent = Policy::new(2, 4);
    assert!(!lent.fed(1, None, false) && !lent.fed(3, None, false), "chunks");
    assert_eq!(lent.done(), None);
    assert!(!lent.fed(1, None, true) && !lent.fed(3, None, false));
    assert_eq!(lent.done(), Some(1));
}

#[test]
fn ranks_that_lend_to_each_other_after_the_walk_wait_for_nobody() {
    let (mut one, mut three) = (Policy::new(1, 4), Policy::new(3, 4));
    one.walk_is_over();
    three.walk_is_over();
    assert!(three.fed(1, None, true) && one.fed(3, None, true), "confirmed at once");
    assert_eq!((one.done(), three.done()), (None, None));
}

#[test]
fn all_ranks_are_reached_over_neighbours() {
    for ranks in 1..70u32 {
        let mut seen = vec![false; ranks as usize];
        let mut next = vec![0u32];
        while let Some(rank) = next.pop() {
            if !std::mem::replace(&mut seen[rank as usize], true) {
                next.extend((0..31).map(|bit| rank ^ (1 << bit)).filter(|other| *other < ranks));
            }
        }
        assert!(seen.iter().all(|seen| *seen), "{ranks}");
    }
}

#[test]
fn portions_leave_something_here() {
    let stock = |dirs, names, other| Stock { dirs, names, other, bundle: 5, ..Stock::default() };
    let among = |among| Share { parts: 1, among };
    let dirs = |dirs| Portion { dirs, ..Portion::default() };
    assert_eq!(portion(stock(1, 0, false), among(1)), Portion::default(), "it is about to be listed here");
    assert_eq!(portion(stock(1, 0, true), among(1)), dirs(1));
    assert_eq!(portion(stock(10, 500, false), among(1)), dirs(5));
    assert_eq!(portion(stock(9, 0, false), among(2)), dirs(3));
    assert_eq!(portion(stock(0, 500, false), among(1)), Portion { names: 250, ..Portion::default() });
    assert_eq!(portion(stock(0, 127, false), among(1)), Portion::default(), "too few for a message");
    let slow = Stock { bundle: 1, ..stock(0, 5, false) };
    assert_eq!(portion(slow, among(1)).names, 2, "files that take long");
    assert_eq!(portion(stock(1 << 20, 0, false), among(1)).dirs, MOST_DIRS);
    assert_eq!(portion(stock(0, 1000, false), among(100)).names, 64, "few get something rather than nobody");
    let most = |dirs| portion(stock(dirs, 0, false), Share { parts: 8, among: 15 }).dirs;
    assert_eq!((most(20), most(5), most(2), most(1)), (10, 2, 1, 0), "half of all ranks are behind this one");
    let chunks = |chunks| portion(Stock { chunks, ..Stock::default() }, among(1)).chunks;
    assert_eq!((chunks(15), chunks(17), chunks(100)), (0, 8, 50));
}
