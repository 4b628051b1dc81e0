package router

// DefaultBudget is the share of tokens that is asked for or replaced where nothing else bounds it.
const DefaultBudget = 0.07

// Complete returns o with what it leaves open, for the router file f, or for none if f is nil:
//
//	policy      the given one; that of the file, with a threshold that of its network; margin with a threshold; verify
//	networks    those that the file has for the policy, and what is known of its confidences
//	threshold   the given one; that of the file's certificate if it is of the policy, and no budget is given
//	budget      the given one; [DefaultBudget] if there is no threshold; never and always have neither
//
// A balance that is given needs a budget: with one, a certificate only counts if its budget can take over. by is the
// certificate that the threshold is from; nil: it is not from one. The error says what the file lacks; the policy is
// also then the one that was chosen.
func (f *File) Complete(o Options) (_ Options, by *Certificate, err error) {
	o.Policy = f.choosePolicy(o)
	if f != nil {
		of, err := f.Options(o.Policy)
		if err != nil {
			return o, nil, err
		}
		o.Net, o.Judge, o.Calibration = of.Net, of.Judge, of.Calibration
	}
	switch {
	case o.Policy == Never || o.Policy == Always:
		o.Threshold, o.Budget, o.Balance = nil, 0, nil
	case o.Threshold != nil || o.Budget != 0:
	case f != nil && f.Certificate != nil && o.Policy == f.Policy() && (o.Balance == nil || f.Watched() > 0):
		by = f.Certificate
		o.Threshold, o.Fallback = &by.Threshold, f.Watched()
	default:
		o.Budget = DefaultBudget
	}
	return o, by, nil
}

func (f *File) choosePolicy(o Options) Policy {
	switch {
	case o.Policy != "":
		return o.Policy
	case f != nil && o.Threshold != nil:
		return f.networkPolicy()
	case f != nil:
		return f.Policy()
	case o.Threshold != nil:
		return Margin
	}
	return Verify
}
