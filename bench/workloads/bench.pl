# What Perl programs do: hashes, strings, regular expressions, sorting, closures.
# perl bench.pl SIZE
use strict;
use warnings;

my ($size) = @ARGV;
my ($sum, %seen, %words) = (0);
for my $round (1 .. $size) {
    for my $i (1 .. 2000) {
        my $key = "k" . ($i * 7919 + $round) % 5003;
        $seen{$key} .= $i if $i % 3;
        $seen{$key} = '' if length($seen{$key} // '') > 50;
    }
    my $text = join ' ', map { "w" . ($_ * $round) % 97 } 1 .. 200;
    $words{$1}++ while $text =~ /(\w+)/g;
    my @sorted = sort { $words{$a} <=> $words{$b} || $a cmp $b } keys %words;
    my $add = sub { my ($n) = @_; return $n * $round % 1009 };
    $sum += $add->($_) for 0 .. 99;
    $sum += length $sorted[0];
}
print scalar(keys %seen), " $sum\n";
