let rec fib n = if n < 2 then n else fib (n-1) + fib (n-2)
let () = let h = Hashtbl.create 10 in for i = 1 to 100000 do Hashtbl.replace h (i mod 977) (string_of_int i) done;
 let l = Hashtbl.fold (fun k v a -> (k,v)::a) h [] in let l = List.sort compare l in Printf.printf "%d %d %s\n" (fib 25) (List.length l) (snd (List.hd l))
