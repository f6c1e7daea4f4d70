-- wrk -s pipeline.lua URL -- DEPTH: every write carries DEPTH requests (16 by default).
function init(args)
   local depth = tonumber(args[1]) or 16
   batch = string.rep(wrk.format("GET"), depth)
end

function request()
   return batch
end
