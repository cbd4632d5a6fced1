# Hashes, sorting, regular expressions, closures, objects, die; status 4.
use strict; use warnings;
my %n;
$n{$_ * 7919 % 997} .= chr(65 + $_ % 26) for 1 .. 20000;
print join(",", map { "$_=" . length $n{$_} } (sort { $a <=> $b } keys %n)[0 .. 9]), "\n";
my $text = join " ", map { sprintf "%04d:%x", $_, $_ * 31 } 1 .. 2000;
my $hits = () = $text =~ /\b(\d+):([a-f]\w*)/g;
(my $swapped = $text) =~ s/(\d+):(\w+)/$2:$1/g;
print "$hits ", length $swapped, " ", substr($swapped, 0, 40), "\n";
my @subs = map { my $k = $_; sub { $k += shift } } 1 .. 50;
my $sum = 0;
for my $i (1 .. 100) { $sum += $_->($i) for @subs }
print "$sum\n";
package Animal { sub new { bless { name => $_[1] }, $_[0] } sub say { $_[0]{name} . " " . $_[0]->sound } }
package Dog { our @ISA = "Animal"; sub sound { "wuff" } }
print Dog->new("rex")->say, "\n";
my $caught = 0;
for (1 .. 300) { eval { die { code => $_ } if $_ % 3 == 0; die "text\n" if $_ % 5 == 0; 1 } or $caught += ref $@ ? $@->{code} : 1 }
print "$caught\n", scalar reverse("abc"), " ", join("", sort { $b cmp $a } split //, "programs"), "\n";
print unpack("%32C*", $text), " ", join(":", unpack "A2 n", pack "A2 n", "xy", 513), "\n";
$! = 4;
die "at the end\n";
