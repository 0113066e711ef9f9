use super::*;
use proptest::prelude::*;

fn size(text: &str) -> Result<u64, String> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let unit = match &text[end..] {
        "B" => 1,
        "K" | "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return Err("no unit".into()),
    };
    Ok(text[..end].parse::<u64>().map_err(|e| e.to_string())? * unit)
}

fn plan(text: &str, options: &Options) -> Plan {
    Plan::new(&Spec::parse(text, &size).unwrap(), options).unwrap()
}

#[test]
fn a_spec_comes_to_what_it_says() {
    let t = plan("1000x10MiB", &Options::default()).totals();
    assert_eq!((t.files, t.bytes, t.dirs, t.largest), (1000, 1000 * (10 << 20), 0, 10 << 20));
    let t = plan("10x1GiB + 1000x6500B", &Options::default()).totals();
    assert_eq!((t.files, t.bytes, t.dirs), (1010, (10 << 30) + 6_500_000, 2));
    let t = plan("lognormal:median=1KiB,sigma=1,count=500,uniform:min=1B,max=2B,count=10,3x1B", &Options::default()).totals();
    assert_eq!(t.files, 513);
    assert_eq!(plan("lognormal", &Options::default()).totals().files, 10_000);
}

#[test]
fn the_impossible_is_refused_with_what_is_possible() {
    let no = |text: &str, words: &str| {
        let why = Spec::parse(text, &size).and_then(|spec| Plan::new(&spec, &Options::default()).map(|_| ())).expect_err(text);
        assert!(why.contains(words), "{text}: {why}");
    };
    no("", "COUNTxSIZE");
    no("0x10MiB", "smallest count is 1");
    no("1000x10", "no unit");
    no("1000", "COUNTxSIZE");
    no("x10MiB", "COUNTxSIZE");
    no("-5x1B", "COUNTxSIZE");
    no("1000x10MiB,", "COUNTxSIZE");
    no("99999999999999999999999x1B", "too many");
    no("200000000x1B", "too many");
    no("99000000x9999999999GiB", "");
    no("100000000x999999999GiB", "");
    no("normal:mean=3", "lognormal");
    no("lognormal:mean=3KiB", "median=, sigma=, count=, max=");
    no("lognormal:sigma=wide", "no number");
    no("lognormal:sigma=-1", "from 0");
    no("lognormal:sigma=NaN", "from 0");
    no("lognormal:count=0", "smallest count is 1");
    no("lognormal:median=0B", "smallest is 1B");
    no("lognormal:count=2,count=3", "twice");
    no("lognormal:sigma=10,median=9999999GiB,count=100000000", "");
    no("uniform:min=2KiB,max=1KiB", "above its max");
    no("uniform:min=1B,max=9000000GiB,count=10000000", "2^64");
    no("harvard", "COUNTxSIZE");
}

proptest! {
    #[test]
    fn no_spec_makes_the_parser_panic(text in "[0-9xXKMGiB,+:=a-z.]{0,40}|(lognormal|uniform|[0-9]{1,4}x[0-9]KiB)[:,+](median|sigma|count|max|min)?=?[0-9]{0,20}") {
        if let Ok(spec) = Spec::parse(&text, &size) {
            assert!(spec.scaled(3).files() > 0);
        }
    }
}
