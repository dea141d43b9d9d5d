//! The self-test of right kernels passes.

use super::{
    buffers, half,
    support::{
        Ran, Upload,
        catalogue::{Case, inferred, sixteen_bits},
        client, not_allowed, run_call, trial,
    },
};
use ::half::f16;
use gru_cube::{Call, launches};
use libtest_mimic::Trial;

pub fn trials() -> Vec<Trial> {
    vec![
        trial("self-test/f32", || {
            let all = buffers::cases();
            let all = all.into_iter().chain(inferred().cases);
            pass::<f32>(all.filter(|case| case.seed % 4 == 0))
        }),
        trial("self-test/f16", || {
            half::has_f16()?;
            let cases = sixteen_bits().cases.into_iter();
            pass::<f16>(cases.filter(|case| case.seed % 4 == 0))
        }),
    ]
}

fn pass<F: Upload>(cases: impl Iterator<Item = Case>) -> Ran {
    for case in cases {
        let problem = case.problem::<F>();
        let call = Call {
            self_test: true,
            ..problem.call::<F>()
        };
        let (strategy, in_place) = (case.strategy, case.mode.in_place);
        let before = launches();
        run_call::<F>(&client(), &call, &problem, strategy, in_place).map_err(not_allowed)?;
        assert!(
            launches() - before >= 4,
            "{case:?}: two passes and their tests"
        );
    }
    Ok(())
}
