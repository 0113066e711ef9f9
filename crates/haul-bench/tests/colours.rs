//! The colours of plots: seen against their target, and told apart by eyes of every kind.

use haul_bench::report;

type Rgb = [f64; 3];

/// How eyes without one kind of cones see linear RGB, and as others do (Machado, Oliveira and Fernandes 2009, severity 1).
const EYES: [(&str, [Rgb; 3]); 4] = [
    ("all cones", [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
    ("no red", [[0.152_286, 1.052_583, -0.204_868], [0.114_503, 0.786_281, 0.099_216], [-0.003_882, -0.048_116, 1.051_998]]),
    ("no green", [[0.367_322, 0.860_646, -0.227_968], [0.280_085, 0.672_501, 0.047_413], [-0.011_820, 0.042_940, 0.968_881]]),
    ("no blue", [[1.255_528, -0.076_749, -0.178_779], [-0.078_411, 0.930_809, 0.147_602], [0.004_733, 0.691_367, 0.303_900]]),
];

/// Linear RGB of `#rrggbb`.
fn linear(hex: &str) -> Rgb {
    [1, 3, 5].map(|at| {
        let value = f64::from(u8::from_str_radix(&hex[at..at + 2], 16).expect("a colour")) / 255.0;
        if value <= 0.040_45 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    })
}

fn luminance([r, g, b]: Rgb) -> f64 {
    0.2126 * r + 0.7152 * g + 0.0722 * b
}

/// Of WCAG 2.
fn contrast(a: Rgb, b: Rgb) -> f64 {
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

/// CIE 1976 L*a*b*, white D65.
fn lab(rgb: Rgb) -> Rgb {
    let [r, g, b] = rgb.map(|v| v.clamp(0.0, 1.0));
    let f = |t: f64| if t > 0.008_856 { t.cbrt() } else { 7.787 * t + 16.0 / 116.0 };
    let x = f((0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505);
    let y = f(luminance([r, g, b]));
    let z = f((0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089);
    [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
}

fn seen(rgb: Rgb, by: [Rgb; 3]) -> Rgb {
    lab(by.map(|row| row.iter().zip(rgb).map(|(a, b)| a * b).sum()))
}

#[test]
fn lines_are_told_apart_by_all_eyes() {
    let page = report::html(&[]);
    let of = |name: &str| -> Vec<Rgb> { page.split(&format!("--{name}: ")).skip(1).map(|rest| linear(&rest[..7])).collect() };
    let (paper, colours): (Vec<Rgb>, Vec<Vec<Rgb>>) = (of("paper"), (0..8).map(|at| of(&format!("c{at}"))).collect());
    assert_eq!(paper.len(), 2, "light and dark");
    for target in 0..2 {
        for (at, colour) in colours.iter().enumerate() {
            assert!(contrast(colour[target], paper[target]) >= 3.0, "colour {at} on target {target}");
            for (eyes, by) in EYES {
                for (other, against) in colours[..at].iter().enumerate() {
                    let (a, b) = (seen(colour[target], by), seen(against[target], by));
                    let apart = a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
                    assert!(apart >= 20.0, "colours {at} and {other} on target {target}: {apart} for eyes with {eyes}");
                }
            }
        }
    }
}
